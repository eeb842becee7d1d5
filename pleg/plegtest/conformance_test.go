package plegtest

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/testkit/child"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
)

// The in-memory runtime passes the suite, with and without events.
func TestConformance(t *testing.T) {
	for name, events := range map[string]bool{"events": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			Run(t, Config{Around: synctest.Test, Start: func(*testing.T) Subject {
				rt := &Runtime{}
				if events {
					return Subject{Runtime: rt.WithEvents(), Pods: rt.Pods()}
				}
				return Subject{Runtime: rt, Pods: rt.Pods()}
			}})
		})
	}
}

type slowPods struct{ Pods }

func (s slowPods) Start(ctx context.Context, uid types.UID) error {
	time.Sleep(time.Second)
	return s.Pods.Start(ctx, uid)
}

// The suite works in a bubble, where time passes only while all goroutines wait.
func TestConformanceInBubble(t *testing.T) {
	Run(t, Config{Around: synctest.Test, Start: func(*testing.T) Subject {
		rt := &Runtime{}
		return Subject{Runtime: rt, Pods: slowPods{rt.Pods()}}
	}})
}

// A runtime that waits for a file fails its case. A bubble with it would stand still.
func TestStoppedClockFails(t *testing.T) {
	child.Fails(t, "a_removed_pod_is_absent", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { _ = w.Close() })
		Run(t, Config{Around: synctest.Test, Start: func(*testing.T) Subject {
			rt := &Runtime{}
			return Subject{Pods: rt.Pods(), Runtime: &defective{EventedRuntime: rt.WithEvents(), list: func(context.Context) ([]observed.ListedPod, error) {
				_, err := r.Read(make([]byte, 1))
				return nil, err
			}}}
		}})
	}, "the clock of the synctest bubble stands still", "os.(*File).Read")
}

// defective is a runtime with a defect.
type defective struct {
	EventedRuntime
	list   func(context.Context) ([]observed.ListedPod, error)
	look   func(context.Context, types.UID) (*observed.Pod, error)
	events func(context.Context, func(types.UID)) error
	// foreign changes the pods of another owner.
	foreign Pods
}

func (s *defective) ListPods(ctx context.Context) ([]observed.ListedPod, error) {
	if s.list != nil {
		return s.list(ctx)
	}
	return s.Runtime.ListPods(ctx)
}

func (s *defective) PodStatus(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	if s.look != nil {
		return s.look(ctx, uid)
	}
	return s.Runtime.PodStatus(ctx, uid)
}

func (s *defective) PodEvents(ctx context.Context, dirty func(types.UID)) error {
	if s.events != nil {
		return s.events(ctx, dirty)
	}
	return s.EventedRuntime.PodEvents(ctx, dirty)
}

// listed changes the results of lists, inspected the results of PodStatus.
func (s *defective) listed(change func([]observed.ListedPod) []observed.ListedPod) {
	s.list = func(ctx context.Context) ([]observed.ListedPod, error) {
		list, err := s.Runtime.ListPods(ctx)
		return change(list), err
	}
}

func (s *defective) inspected(change func(*observed.Pod)) {
	s.look = func(ctx context.Context, uid types.UID) (*observed.Pod, error) {
		status, err := s.Runtime.PodStatus(ctx, uid)
		if err == nil {
			change(status)
		}
		return status, err
	}
}

func (s *defective) eachListed(change func(*observed.ListedPod)) {
	s.listed(func(list []observed.ListedPod) []observed.ListedPod {
		for i := range list {
			change(&list[i])
		}
		return list
	})
}

// notFound returns an error for a pod that does not exist.
func (s *defective) notFound() {
	s.look = func(ctx context.Context, uid types.UID) (*observed.Pod, error) {
		status, err := s.Runtime.PodStatus(ctx, uid)
		if err == nil && status.Empty() {
			return nil, errors.New("not found")
		}
		return status, err
	}
}

// cachedFor returns cached results up to an age.
func (s *defective) cachedFor(limit time.Duration) {
	var mu sync.Mutex
	at, cache := map[types.UID]time.Time{}, map[types.UID]*observed.Pod{}
	s.look = func(ctx context.Context, uid types.UID) (*observed.Pod, error) {
		mu.Lock()
		defer mu.Unlock()
		if old := cache[uid]; old != nil && time.Since(at[uid]) < limit {
			return clone(old), nil
		}
		status, err := s.Runtime.PodStatus(ctx, uid)
		if err == nil {
			at[uid], cache[uid] = time.Now(), clone(status)
		}
		return status, err
	}
}

type defect struct {
	name      string
	caughtBy  string
	introduce func(s *defective)
}

func defects() []defect { return append(answerDefects(), behaviourDefects()...) }

func dropExited[C any](containers []C, state func(C) observed.State) []C {
	return slices.DeleteFunc(containers, func(c C) bool { return state(c) == observed.StateExited })
}

func answerDefects() []defect {
	const absentPod, once = "the status of an absent pod is empty, without an error", "a running pod is listed once, and its status equals the list entry"
	const exited, newest = "an exited container stays visible", "a new instance comes before the old one"
	return []defect{
		{"pods of all owners", "pods of another owner are invisible", func(s *defective) { s.foreign = s.Pods() }},
		{"an unknown pod is an error", absentPod, (*defective).notFound},
		{"an unknown pod is nil", absentPod, func(s *defective) {
			s.look = func(context.Context, types.UID) (*observed.Pod, error) { return nil, nil }
		}},
		{"a status without the UID", once, func(s *defective) { s.inspected(func(status *observed.Pod) { status.UID = "" }) }},
		{"a pod is listed twice", once, func(s *defective) {
			s.listed(func(list []observed.ListedPod) []observed.ListedPod { return append(list, list...) })
		}},
		{"list and status differ in a container's name", once, func(s *defective) {
			s.inspected(func(status *observed.Pod) {
				for i := range status.Containers {
					status.Containers[i].ID.Runtime = "other"
				}
			})
		}},
		{"statuses have no sandboxes", once, func(s *defective) { s.inspected(func(status *observed.Pod) { status.Sandboxes = nil }) }},
		{"lists omit exited containers", exited, func(s *defective) {
			s.eachListed(func(p *observed.ListedPod) {
				p.Containers = dropExited(p.Containers, func(c observed.ListedContainer) observed.State { return c.State })
			})
		}},
		{"statuses omit exited containers", exited, func(s *defective) {
			s.inspected(func(status *observed.Pod) {
				status.Containers = dropExited(status.Containers, func(c observed.Container) observed.State { return c.State })
			})
		}},
		{"the oldest instance comes first", newest, func(s *defective) {
			s.inspected(func(status *observed.Pod) { slices.Reverse(status.Containers) })
		}},
		{"lists have the oldest instance first", newest, func(s *defective) {
			s.eachListed(func(p *observed.ListedPod) { slices.Reverse(p.Containers) })
		}},
	}
}

func behaviourDefects() []defect {
	const ended, stream = "a cancelled context gives an error or a complete result", "an event stream lasts until its context is done, and then returns an error"
	return []defect{
		{"a removed pod stays in lists", "a removed pod is absent", func(s *defective) {
			seen := map[types.UID]bool{}
			s.Deliver(func(uid types.UID) []time.Duration { seen[uid] = true; return []time.Duration{0} })
			s.listed(func(list []observed.ListedPod) []observed.ListedPod { return append(list, withRemoved(seen, list)...) })
		}},
		{"statuses are cached", "every query shows all earlier changes", func(s *defective) { s.cachedFor(time.Hour) }},
		{"results share the runtime's memory", "the caller owns each result", func(s *defective) {
			s.look = func(_ context.Context, uid types.UID) (*observed.Pod, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				if status := s.pods[uid]; status != nil {
					return status, nil
				}
				return &observed.Pod{UID: uid}, nil
			}
		}},
		{"a cancelled context gives an incomplete list", ended, func(s *defective) {
			s.list = func(ctx context.Context) ([]observed.ListedPod, error) {
				if ctx.Err() != nil {
					return nil, nil
				}
				return s.Runtime.ListPods(ctx)
			}
		}},
		{"a cancelled context gives an incomplete status", ended, func(s *defective) {
			s.look = func(ctx context.Context, uid types.UID) (*observed.Pod, error) {
				if ctx.Err() != nil {
					return &observed.Pod{UID: uid}, nil
				}
				return s.Runtime.PodStatus(ctx, uid)
			}
		}},
		{"a pod removed during an inspection is an error", "changes of other pods do not affect queries", (*defective).notFound},
		{"events about exits are missing", "events name the pod that starts, exits or is removed", func(s *defective) {
			s.Lose(func(uid types.UID) bool {
				status := s.pods[uid]
				return status != nil && len(status.Containers) > 0 && status.Containers[0].State == observed.StateExited
			})
		}},
		{"streams end by themselves", stream, func(s *defective) {
			s.events = func(context.Context, func(types.UID)) error {
				time.Sleep(600 * time.Millisecond)
				return errors.New("over")
			}
		}},
		{"streams end without an error", stream, func(s *defective) {
			s.events = func(ctx context.Context, _ func(types.UID)) error { <-ctx.Done(); return nil }
		}},
		{"streams ignore their context", stream, func(s *defective) {
			s.events = func(context.Context, func(types.UID)) error { time.Sleep(time.Hour); return errors.New("over") }
		}},
		{"lists never see an exit", "a PLEG reports the start, exit and removal of a pod", func(s *defective) {
			s.events = func(context.Context, func(types.UID)) error { return pleg.ErrNoEvents }
			s.eachListed(func(p *observed.ListedPod) {
				for i := range p.Containers {
					p.Containers[i].State = observed.StateRunning
				}
			})
			s.inspected(func(status *observed.Pod) {
				for i := range status.Containers {
					status.Containers[i].State = observed.StateRunning
				}
			})
		}},
		{"statuses are a second old", "an observation shows the latest change", func(s *defective) { s.cachedFor(time.Second) }},
	}
}

// withRemoved returns pods that were listed before and are not in the list.
func withRemoved(seen map[types.UID]bool, list []observed.ListedPod) []observed.ListedPod {
	var out []observed.ListedPod
	for uid := range seen {
		if !slices.ContainsFunc(list, func(o observed.ListedPod) bool { return o.UID == uid }) {
			out = append(out, observed.ListedPod{UID: uid, Sandboxes: []observed.ListedSandbox{{ID: "ghost"}}})
		}
	}
	return out
}

// TestDefects shows that the suite can fail: each defect is caught by the case whose rule it
// violates, and that case passes without it.
func TestDefects(t *testing.T) {
	caught := map[string]bool{}
	for _, d := range defects() {
		t.Run(d.name, func(t *testing.T) {
			i := slices.IndexFunc(cases(), func(c testCase) bool { return c.name == d.caughtBy })
			require.GreaterOrEqual(t, i, 0, "no such case")
			c := cases()[i]
			caught[c.name] = true
			synctest.Test(t, func(t *testing.T) {
				rt := &Runtime{}
				require.NoError(t, c.try(t.Context(), Subject{Runtime: rt.WithEvents(), Pods: rt.Pods(), Foreign: (&Runtime{}).Pods()}, 10*time.Second), "without the defect")
				s := &defective{EventedRuntime: (&Runtime{}).WithEvents(), foreign: (&Runtime{}).Pods()}
				d.introduce(s)
				err := c.try(t.Context(), Subject{Runtime: s, Pods: s.Pods(), Foreign: s.foreign}, 10*time.Second)
				require.Error(t, err, "the case passes despite the defect")
				require.NotErrorIs(t, err, errSkip)
				require.NotContains(t, err.Error(), "%!")
				time.Sleep(2 * time.Hour) // until a stream that ignores its context has ended
			})
		})
	}
	for _, c := range cases() {
		require.True(t, caught[c.name], "no defect shows that %q can fail", c.name)
	}
}

// An error of Pods is reported with the step.
func TestErrorOfPodsIsReported(t *testing.T) {
	for _, c := range cases() {
		rt := &Runtime{}
		err := c.try(t.Context(), Subject{Runtime: rt, Pods: brokenPods{}}, 10*time.Millisecond)
		require.Error(t, err, c.name)
	}
}

type brokenPods struct{}

var errBroken = errors.New("broken")

func (brokenPods) Start(context.Context, types.UID) error  { return errBroken }
func (brokenPods) Exit(context.Context, types.UID) error   { return errBroken }
func (brokenPods) Remove(context.Context, types.UID) error { return errBroken }
