package stagestest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/stages"
)

func subject(m *Memory, wrap func(*Memory) stages.Stage) Subject {
	return Subject{
		Open: func() (stages.Stage, error) { return wrap(m), nil }, Holds: m.Holds, Block: m.Block,
		Halfway: map[string]func(*v1.Pod) error{"prepared": func(pod *v1.Pod) error { return m.Prepare(context.Background(), pod) }},
	}
}

func TestMemory(t *testing.T) {
	Run(t, func(testing.TB) Subject {
		return subject(NewMemory(), func(m *Memory) stages.Stage { return m })
	})
}

// Run accepts a stage whose resources appear when the pod uses them.
func TestUse(t *testing.T) {
	Run(t, func(testing.TB) Subject {
		h := subject(NewMemory(), func(m *Memory) stages.Stage {
			b := newBroken(m)
			b.prepare = func(context.Context, *v1.Pod) error { return nil }
			return b
		})
		h.Use = func(s stages.Stage, pod *v1.Pod) error { return s.(*broken).Memory.Prepare(context.Background(), pod) }
		return h
	})
}

// broken is a Memory whose methods a test replaces.
type broken struct {
	*Memory
	prepare   func(context.Context, *v1.Pod) error
	release   func(context.Context, types.UID) error
	leftovers func(context.Context) ([]types.UID, error)
}

func newBroken(m *Memory) *broken { return &broken{m, m.Prepare, m.Release, m.Leftovers} }

func (b *broken) Prepare(ctx context.Context, pod *v1.Pod) error { return b.prepare(ctx, pod) }

func (b *broken) Release(ctx context.Context, uid types.UID) error { return b.release(ctx, uid) }

func (b *broken) Leftovers(ctx context.Context) ([]types.UID, error) { return b.leftovers(ctx) }

// beforePrepare makes Prepare call f first.
func (b *broken) beforePrepare(f func(types.UID) error) {
	b.prepare = func(ctx context.Context, pod *v1.Pod) error {
		if err := f(pod.UID); err != nil {
			return err
		}
		return b.Memory.Prepare(ctx, pod)
	}
}

// beforeRelease makes Release call f first.
func (b *broken) beforeRelease(f func(types.UID) error) {
	b.release = func(ctx context.Context, uid types.UID) error {
		if err := f(uid); err != nil {
			return err
		}
		return b.Memory.Release(ctx, uid)
	}
}

func failIf(is bool) error {
	if is {
		return errors.New("refused")
	}
	return nil
}

// unblock may be called again, and does not end a later Block.
func TestUnblockTwice(t *testing.T) {
	m := NewMemory()
	first, second := m.Block("1"), m.Block("1")
	first()
	first()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.Release(ctx, "1"), context.Canceled)
	require.NotNil(t, m.blocked["1"])
	second()
	require.NoError(t, m.Release(t.Context(), "1"))
}

// The suite fails each broken stage at the rule that it breaks.
func TestBrokenStages(t *testing.T) {
	for rule, breaks := range map[string]func(*broken){
		"Leftovers names a pod from Prepare until Release has succeeded": func(b *broken) {
			// lists only the pods that this agent prepared
			mine := map[types.UID]bool{}
			b.beforePrepare(func(uid types.UID) error { mine[uid] = true; return nil })
			b.leftovers = func(context.Context) (uids []types.UID, err error) {
				for uid := range mine {
					if b.Holds(uid) {
						uids = append(uids, uid)
					}
				}
				return uids, nil
			}
		},
		"Prepare may be repeated": func(b *broken) {
			b.beforePrepare(func(uid types.UID) error { return failIf(b.Holds(uid)) })
		},
		"Release may be repeated": func(b *broken) {
			released := map[types.UID]bool{}
			b.beforeRelease(func(uid types.UID) error {
				before := released[uid]
				released[uid] = true
				return failIf(before)
			})
		},
		"Release needs no Prepare": func(b *broken) {
			b.beforeRelease(func(uid types.UID) error { return failIf(!b.Holds(uid)) })
		},
		"a pod can come back after its release": func(b *broken) {
			released := map[types.UID]bool{}
			b.beforeRelease(func(uid types.UID) error { released[uid] = true; return nil })
			b.beforePrepare(func(uid types.UID) error { return failIf(released[uid]) })
		},
		"killed between any two steps": func(b *broken) {
			// a cancelled release hides the pod first
			hidden := map[types.UID]bool{}
			b.beforeRelease(func(uid types.UID) error { hidden[uid] = true; return nil })
			b.leftovers = func(ctx context.Context) (uids []types.UID, err error) {
				all, err := b.Memory.Leftovers(ctx)
				for _, uid := range all {
					if !hidden[uid] {
						uids = append(uids, uid)
					}
				}
				return uids, err
			}
		},
		"killed within a step": func(b *broken) {
			prepared := map[types.UID]bool{}
			b.beforePrepare(func(uid types.UID) error { prepared[uid] = true; return nil })
			b.release = func(ctx context.Context, uid types.UID) error {
				if !prepared[uid] {
					return nil
				}
				return b.Memory.Release(ctx, uid)
			}
		},
		"pods do not disturb each other": func(b *broken) {
			b.release = func(ctx context.Context, uid types.UID) error {
				all, _ := b.Memory.Leftovers(ctx)
				for _, other := range all {
					uid = other
					_ = b.Memory.Release(ctx, other)
				}
				return b.Memory.Release(ctx, uid)
			}
		},
		"pods are prepared and released in parallel": func(b *broken) {
			busy := make(chan struct{}, 1)
			b.prepare = func(ctx context.Context, pod *v1.Pod) error {
				select {
				case busy <- struct{}{}:
					defer func() { <-busy }()
				default:
					return errors.New("busy")
				}
				time.Sleep(time.Millisecond)
				return b.Memory.Prepare(ctx, pod)
			}
		},
		"calls return when their context is done": func(b *broken) {
			b.release = func(ctx context.Context, uid types.UID) error {
				if ctx.Err() != nil {
					time.Sleep(time.Hour)
				}
				return b.Memory.Release(ctx, uid)
			}
		},
		"a hung release does not delay other pods": func(b *broken) {
			one := make(chan struct{}, 1)
			b.release = func(ctx context.Context, uid types.UID) error {
				one <- struct{}{}
				defer func() { <-one }()
				return b.Memory.Release(ctx, uid)
			}
		},
		"a hung release returns when its context is done": func(b *broken) {
			b.release = func(_ context.Context, uid types.UID) error {
				return b.Memory.Release(context.Background(), uid)
			}
		},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := subject(NewMemory(), func(m *Memory) stages.Stage {
					b := newBroken(m)
					breaks(b)
					return b
				})
				err := play(t.Context(), find(t, rule), h)
				require.ErrorContains(t, err, "\ncalls: ")
				require.NotContains(t, err.Error(), "%!")
				time.Sleep(2 * time.Hour) // for calls that ignore their context
			})
		})
	}
}

// A message has the calls up to the failure. In killedBetween it has the calls of the failed sequence.
func TestMessagesShowTheCalls(t *testing.T) {
	for rule, want := range map[string]string{
		"pods do not disturb each other": "\ncalls: Prepare pod-0001, Prepare pod-0002, Release pod-0001",
		"killed between any two steps":   "\ncalls: Prepare pod-0001, Prepare pod-0001, Prepare pod-0001, Prepare pod-0001, Open, Release pod-0001",
		"killed within a step":           "\ncalls: prepared pod-0001, prepared pod-0002, Open, Release pod-0001",
	} {
		h := subject(NewMemory(), func(m *Memory) stages.Stage {
			b := newBroken(m)
			b.beforeRelease(func(types.UID) error { return errors.New("refused") })
			return b
		})
		err := play(t.Context(), find(t, rule), h)
		require.ErrorContains(t, err, "refused")
		require.True(t, strings.HasSuffix(err.Error(), want), "%v", err)
	}
	h := subject(NewMemory(), func(m *Memory) stages.Stage { return m })
	h.Block = func(types.UID) func() { return func() {} }
	require.ErrorContains(t, play(t.Context(), find(t, "a hung release does not delay other pods"), h), "the hung release returned (error: <nil>)")
	long := trace{calls: slices.Repeat([]string{"Open"}, longestTrace+2)}
	require.ErrorContains(t, long.explain(errors.New("x")), "\ncalls: 2 calls, Open, ")
}

func find(t *testing.T, name string) rule {
	t.Helper()
	for _, r := range rules {
		if r.name == name {
			return r
		}
	}
	require.Fail(t, "no such rule", name)
	return rule{}
}

func TestHarnessIsComplete(t *testing.T) {
	require.ErrorContains(t, play(t.Context(), rules[0], Subject{}), "Subject.Open")
	require.ErrorContains(t, play(t.Context(), rules[0], Subject{Open: func() (stages.Stage, error) { return NewMemory(), nil }}), "Subject.Holds")
}
