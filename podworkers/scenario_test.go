package podworkers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// W1: a storm of updates for 20 UIDs; the last one counts.
func TestStormOfUpdates(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.rec.do = func(context.Context, recorded) (bool, error) {
			time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
			return false, nil
		}
		newest := map[string]*v1.Pod{}
		for range 50 {
			for i := range 20 {
				uid := fmt.Sprint(i)
				newest[uid] = podOf(uid)
				require.NoError(b, b.UpdatePod(update(newest[uid])))
			}
			time.Sleep(time.Millisecond)
		}
		b.pass(time.Second)
		for uid, pod := range newest {
			require.Same(b, pod, b.rec.last(uid).work.Pod)
			require.Less(b, len(b.rec.of(uid)), 50, "updates coalesce")
		}
	})
}

// W2: create, kill and update back to back end in termination.
func TestKillIsSticky(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.send(create(podOf("a")), kill(podOf("a")), update(podOf("a")))
		b.is("a", StateFinished)
		calls := b.rec.kinds("a")
		if calls[0] == syncPod {
			calls = calls[1:]
		}
		require.Equal(b, []Call{terminating, terminated}, calls)
		require.EqualValues(b, 30, b.rec.of("a")[len(b.rec.of("a"))-2].work.GracePeriodSeconds)
	})
}

// W3: a UID is used again; W4: and then removed.
func TestReuseOfUID(t *testing.T) {
	for _, removed := range []bool{false, true} {
		t.Run(fmt.Sprint("removed: ", removed), func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				b.rec.do = func(_ context.Context, c recorded) (bool, error) {
					if c.kind == terminating {
						time.Sleep(5 * time.Second)
					}
					return false, nil
				}
				second := podOf("a")
				b.send(create(podOf("a")))
				b.send(kill(podOf("a")), create(second))
				b.is("a", StateTerminating)
				require.True(b, b.State("a").RestartRequested)
				desired := []*v1.Pod{second}
				if removed {
					desired = nil
				}
				b.known(desired...)
				b.pass(5 * time.Second)
				b.is("a", StateFinished)
				require.NotContains(b, b.known(desired...), types.UID("a"))
				b.called("a", syncPod, terminating, terminated)
				if !removed {
					b.send(create(second))
					b.called("a", syncPod, terminating, terminated, syncPod)
					require.Same(b, second, b.rec.last("a").work.Pod)
				}
			})
		})
	}
}

// W5, W6: a pod whose phase is final when it is first seen.
func TestFirstSightOfEndedPod(t *testing.T) {
	for _, dead := range []bool{true, false} {
		t.Run(fmt.Sprint("dead: ", dead), func(t *testing.T) {
			asked := 0
			stopped := func(uid types.UID) bool { asked++; return dead && uid == "a" }
			inBubble(t, Config{TerminalPodStopped: stopped}, func(b *bubble) {
				b.rec.do = func(_ context.Context, c recorded) (bool, error) {
					if c.kind == terminated && c.n == 1 {
						require.True(b, b.State("a").KnownTerminated())
						return false, errBoom
					}
					return false, nil
				}
				ended := podOf("a", phase(v1.PodSucceeded))
				b.send(create(ended))
				b.pass(10 * time.Second)
				b.send(resync(ended))
				b.is("a", StateFinished)
				if dead {
					b.called("a", terminated, terminated)
				} else {
					b.called("a", terminating, terminated, terminated)
				}
				require.Equal(b, 1, asked, "only at first sight")
			})
		})
	}
}

// W7: a finished pod ignores updates, but whoever waits is told (D1).
func TestFinishedIgnoresUpdates(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		done := make(chan struct{})
		b.send(kill(podOf("a")))
		b.is("a", StateFinished)
		b.send(update(podOf("a")), resync(podOf("a")), kill(podOf("a"), KillOptions{Done: done}))
		require.True(b, isClosed(done))
		b.known(podOf("a"))
		b.pass(time.Hour)
		b.is("a", StateFinished)
		b.called("a", terminating, terminated)
	})
}

// W8: less grace interrupts the running stop; W9: more does not.
func TestGraceWhileStopping(t *testing.T) {
	for _, tc := range []struct {
		name      string
		spec, new int64
		cancelled bool
	}{{"W8", 120, 10, true}, {"W9", 5, 60, false}} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				var causes []error
				b.rec.do = func(ctx context.Context, c recorded) (bool, error) {
					if c.kind != terminating {
						return false, nil
					}
					select {
					case <-time.After(time.Duration(c.work.GracePeriodSeconds) * time.Second):
						return false, nil
					case <-ctx.Done():
						causes = append(causes, context.Cause(ctx))
						return false, ctx.Err()
					}
				}
				pod := podOf("a", specGrace(tc.spec))
				b.send(kill(pod))
				b.pass(time.Second)
				b.send(kill(pod, KillOptions{GracePeriodSeconds: &tc.new}))
				if tc.cancelled {
					require.Equal(b, []error{ErrGracePeriodShortened}, causes)
					b.called("a", terminating, terminating)
					require.Equal(b, tc.new, b.rec.last("a").work.GracePeriodSeconds)
					require.NoError(b, b.State("a").LastError, "an expected cancellation is no error")
					b.pass(10 * time.Second)
					b.is("a", StateFinished)
				} else {
					require.Empty(b, causes)
					b.called("a", terminating)
					require.Equal(b, tc.spec, b.State("a").GracePeriodSeconds)
					b.pass(4 * time.Second)
				}
			})
		})
	}
}

// W11, W31: a plain update does not cancel SyncPod, a deletion does, once; W30: also
// while the syncer waits for an observation. Missing in SyncKnownPods does too.
func TestCancellationOfSyncPod(t *testing.T) {
	for name, end := range map[string]func(b *bubble){
		"deleted":     func(b *bubble) { b.send(update(podOf("a", deleting))) },
		"killed":      func(b *bubble) { b.send(kill(podOf("a"))) },
		"not desired": func(b *bubble) { b.known() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bubble) {
				var causes []error
				b.rec.do = func(ctx context.Context, c recorded) (bool, error) {
					if c.kind != syncPod {
						return false, nil
					}
					SetStep(ctx, "pulling image")
					err := untilCancelled(ctx)
					causes = append(causes, context.Cause(ctx))
					return false, err
				}
				b.send(create(podOf("a")))
				b.send(update(podOf("a")), resync(podOf("a")))
				b.pass(time.Minute)
				require.Empty(b, causes)
				require.Equal(b, "pulling image", b.State("a").Step)
				require.Equal(b, CallSyncPod, b.State("a").Call)
				end(b)
				require.Equal(b, []error{ErrTerminationRequested}, causes)
				b.called("a", syncPod, terminating, terminated)
				require.Empty(b, b.State("a").Step)
			})
		})
	}
}

// W13, W15: static pods of one name run one after the other, each starting at
// the moment at which the one before is finished.
func TestStaticPodsOfOneName(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.rec.do = func(_ context.Context, c recorded) (bool, error) {
			if c.kind == terminated && c.uid == "a" && c.n < 3 {
				time.Sleep(2 * time.Minute) // its wait for volumes is bounded
				return false, errBoom
			}
			return false, nil
		}
		pods := map[string]*v1.Pod{}
		for _, uid := range []string{"a", "b", "c"} {
			pods[uid] = podOf(uid, static("web"))
			b.send(create(pods[uid]))
		}
		b.called("b")
		b.is("b", StateWaiting)
		require.Equal(b, "the static pod a with the same full name", b.State("b").WaitsFor)
		b.send(kill(pods["a"]))
		b.pass(2*time.Minute + 10*time.Second) // the first attempt fails
		b.is("a", StateTerminated)
		b.is("b", StateWaiting)
		b.pass(2*time.Minute + 10*time.Second - time.Nanosecond)
		b.is("b", StateWaiting)
		b.pass(time.Nanosecond)
		b.is("a", StateFinished)
		b.called("b", syncPod)
		require.Equal(b, time.Now(), b.rec.last("b").start, "at once")
		b.called("c")
		b.send(kill(pods["b"]))
		b.called("c", syncPod)
	})
}

// W14: a waiter that is killed is skipped; W18: so is one that is not desired.
func TestWaitersThatLeave(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		pods := map[string]*v1.Pod{}
		for _, uid := range []string{"a", "b", "c", "d"} {
			pods[uid] = podOf(uid, static("web"))
			b.send(create(pods[uid]))
		}
		done := make(chan struct{})
		b.send(kill(pods["b"], KillOptions{Done: done}))
		require.True(b, isClosed(done))
		b.is("b", StateFinished)
		require.NotContains(b, b.known(pods["a"], pods["b"], pods["d"]), types.UID("c"))
		b.send(kill(pods["a"]))
		b.is("d", StateSyncing)
		b.called("b")
		b.called("c")
	})
}

// W16: an API pod does not wait for a static pod of its name.
func TestStaticAndAPIPodOfOneName(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.send(create(podOf("a", static("web"))), create(podOf("b", func(p *v1.Pod) { p.Name = "web" })))
		b.called("a", syncPod)
		b.called("b", syncPod)
	})
}

// W17: only SyncKnownPods repeats what failed for a pod that is not desired.
func TestNotDesiredPodIsRetried(t *testing.T) {
	inBubble(t, Config{Resync: func(types.UID) {}}, func(b *bubble) {
		b.rec.do = func(_ context.Context, c recorded) (bool, error) {
			if c.kind == terminating && c.n == 1 {
				return false, errBoom
			}
			return false, nil
		}
		b.send(create(podOf("a")))
		require.True(b, b.known()["a"].Orphan)
		b.called("a", syncPod, terminating)
		require.ErrorIs(b, b.State("a").LastError, errBoom)
		b.known()
		b.called("a", syncPod, terminating, terminating, terminated)
		b.is("a", StateFinished)
		b.known()
		b.is("a", StateUnknown)
	})
}

// W19, W20: pods that only the runtime knows.
func TestOrphans(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		done := make(chan struct{})
		u := orphan("a")
		u.Kill = &KillOptions{Done: done}
		b.rec.do = func(_ context.Context, c recorded) (bool, error) {
			time.Sleep(time.Second)
			return false, nil
		}
		b.send(u)
		require.True(b, b.State("a").RuntimeOnly)
		b.send(create(podOf("a")))
		b.pass(time.Second)
		b.called("a", CallSyncTerminatingOrphan)
		require.True(b, isClosed(done))
		b.is("a", StateUnknown)
		require.Empty(b, b.known(podOf("a")))
		b.send(create(podOf("a")))
		b.called("a", CallSyncTerminatingOrphan, syncPod)
		require.False(b, b.rec.last("a").work.ActedAt.IsZero(), "INV-16")

		for _, typ := range []UpdateType{UpdateCreate, UpdateUpdate, UpdateSync} {
			refused := orphan("z")
			refused.Type = typ
			require.ErrorIs(b, b.UpdatePod(refused), ErrInvalidUpdate)
		}
		b.is("z", StateUnknown)
	})
}

// W22: a stale list of what runs does not bring a terminated pod back.
func TestStaleListIsIgnored(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.rec.do = func(_ context.Context, c recorded) (bool, error) {
			if c.kind == terminated && c.n == 1 {
				return false, errBoom
			}
			return false, nil
		}
		b.send(kill(podOf("a")))
		b.is("a", StateTerminated)
		b.send(orphan("a"))
		b.called("a", terminating, terminated)
		b.pass(10 * time.Second)
		b.called("a", terminating, terminated, terminated)
		b.send(orphan("a"))
		b.is("a", StateFinished)
	})
}

// W23: a natural end needs no update, and sees what was observed after SyncPod.
func TestNaturalEnd(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.rec.do = func(_ context.Context, c recorded) (bool, error) {
			time.Sleep(time.Second)
			return c.kind == syncPod, nil
		}
		b.send(create(podOf("a")))
		b.pass(3 * time.Second)
		b.called("a", syncPod, terminating, terminated)
		calls := b.rec.of("a")
		require.Equal(b, calls[0].start.Add(time.Second), calls[1].work.ActedAt)
		require.EqualValues(b, 30, calls[1].work.GracePeriodSeconds)
		require.True(b, calls[1].work.GraceFromSpec)
	})
}

// W24: the pauses as they come about, with jitter.
func TestRetries(t *testing.T) {
	for _, tc := range []struct {
		name     string
		err      func() error
		min, max time.Duration
	}{
		{"clean", func() error { return nil }, time.Minute, 90 * time.Second},
		{"generic", func() error { return errBoom }, 10 * time.Second, 15 * time.Second},
		{"not before", func() error { return RetryAt(errBoom, time.Now().Add(5*time.Second)) }, 5 * time.Second, 7500 * time.Millisecond},
		{"past", func() error { return RetryAt(errBoom, time.Now().Add(-time.Second)) }, 0, 0},
		{"far", func() error { return RetryAt(errBoom, time.Now().Add(time.Hour)) }, time.Minute, 90 * time.Second},
		{"network", func() error { return errors.Join(errBoom, fmt.Errorf("x: %w", ErrNetworkNotReady)) }, time.Second, 1500 * time.Millisecond},
		{"panic", func() error { panic("ouch") }, 10 * time.Second, 15 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, Config{Jitter: rand.Float64}, func(b *bubble) {
				b.rec.do = func(_ context.Context, c recorded) (bool, error) {
					if c.n == 1 {
						return false, tc.err()
					}
					return false, nil
				}
				b.send(create(podOf("a")))
				b.pass(tc.max)
				calls := b.rec.of("a")
				require.Len(b, calls, 2)
				pause := calls[1].start.Sub(calls[0].start)
				require.GreaterOrEqual(b, pause, tc.min)
				require.LessOrEqual(b, pause, tc.max)
			})
		})
	}
}

// W25: the last status function counts on each attempt, every channel is closed.
func TestTwoKills(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		var reasons []string
		b.rec.do = func(ctx context.Context, c recorded) (bool, error) {
			if c.kind != terminating {
				require.Nil(b, c.work.Status)
				return false, nil
			}
			status := &v1.PodStatus{}
			c.work.Status(status)
			reasons = append(reasons, status.Reason)
			if len(reasons) < 3 {
				time.Sleep(time.Second)
				return false, errBoom
			}
			return false, nil
		}
		because := func(reason string) func(*v1.PodStatus) {
			return func(s *v1.PodStatus) { s.Reason = reason }
		}
		first, second := make(chan struct{}), make(chan struct{})
		b.send(kill(podOf("a"), KillOptions{Done: first, Status: because("first")}))
		b.send(kill(podOf("a"), KillOptions{Done: second, Status: because("second"), Evict: true}))
		b.pass(time.Second)
		require.False(b, isClosed(first))
		b.pass(12 * time.Second)
		require.Equal(b, []string{"first", "second", "second"}, reasons)
		require.True(b, isClosed(first) && isClosed(second))
		require.True(b, b.rec.last("a").work.Evicted)
	})
}

// W28: nothing is left of pods that are gone.
func TestNothingIsLeft(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	inBubble(t, Config{}, func(b *bubble) {
		for i := range n {
			pod := podOf(fmt.Sprint(i))
			if i%3 == 0 {
				static("web")(pod)
			}
			require.NoError(b, b.UpdatePod(create(pod)))
			if i%10 == 0 {
				synctest.Wait()
				b.known()
			}
		}
		for range 3 {
			b.known()
		}
		require.Empty(b, b.m.records)
		require.Empty(b, b.m.names)
		require.Empty(b, b.m.due)
		require.Empty(b, b.contexts)
		require.Empty(b, b.running)
		require.Empty(b, b.notes)
	})
}

// INV-2: a pod that blocks delays nobody, neither other pods nor callers.
func TestBlockedPodDelaysNobody(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.rec.do = func(ctx context.Context, c recorded) (bool, error) {
			if c.uid == "stuck" && c.kind == terminating {
				return false, untilCancelled(ctx)
			}
			return false, nil
		}
		b.send(kill(podOf("stuck")))
		b.send(create(podOf("a")))
		for range 10 {
			b.send(kill(podOf("stuck")))
		}
		b.known(podOf("a"))
		b.send(kill(podOf("a")))
		b.is("a", StateFinished)
		b.is("stuck", StateTerminating)
	})
}
