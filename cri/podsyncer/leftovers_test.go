package podsyncer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/podworkers/stages/stagestest"
	"github.com/podwright/podwright/syncloop"
)

// diary records first occurrences, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.lines, line) {
		d.lines = append(d.lines, line)
	}
}

type stage struct {
	name  string
	diary *diary
}

func (s stage) Prepare(context.Context, *v1.Pod) error {
	s.diary.write("prepare " + s.name)
	return nil
}

func (s stage) Release(context.Context, types.UID) error {
	s.diary.write("release " + s.name)
	return nil
}

func (s stage) Leftovers(context.Context) ([]types.UID, error) { return nil, nil }

// Stages are prepared before the sandbox. Stages with release point Stopped are released before the
// containers are removed, the rest afterwards.
func TestStagesOfAPod(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		d := &diary{}
		w.stages = []stages.Entry{
			{Name: "used", Release: stages.Stopped, Stage: stage{"used", d}},
			{Name: "kept", Release: stages.Gone, Stage: stage{"kept", d}},
		}
		w.calls.Intercept(func(_ context.Context, call string, do func() error) error {
			d.write(call)
			return do()
		})
		w.run(5*time.Second, newPod("1", v1.RestartPolicyAlways, "a"))
		w.set()
		w.Sleep(10 * time.Second)
		require.Equal(t, []string{
			"prepare used", "prepare kept", "RunPodSandbox", "CreateContainer", "StartContainer",
			"StopContainer", "StopPodSandbox", "release used", "RemoveContainer", "RemovePodSandbox", "release kept",
		}, d.lines)
		w.requireNothingLeft()
	})
}

// An ended pod releases its Stopped stages, and keeps the rest while a source names it.
func TestStagesOfAPodThatHasEnded(t *testing.T) {
	inHarness(t, fake.Config{Programs: fake.Always(fake.Exit(0))}, func(w *harness) {
		d := &diary{}
		w.stages = []stages.Entry{
			{Name: "used", Release: stages.Stopped, Stage: stage{"used", d}},
			{Name: "kept", Release: stages.Gone, Stage: stage{"kept", d}},
		}
		w.run(time.Minute, newPod("1", v1.RestartPolicyNever, "a"))
		require.Equal(t, []string{"prepare used", "prepare kept", "release used"}, d.lines)
		require.Len(t, w.Containers(), 1)
		w.set()
		w.Sleep(10 * time.Second)
		require.Equal(t, "release kept", d.lines[len(d.lines)-1])
		w.requireNothingLeft()
	})
}

// Leftovers of a removed pod are found at once; leftovers from another program are found within
// leftoverScanPeriod.
func TestLeftoversAreLookedForWhenThereMayBeSome(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		held := stagestest.NewMemory()
		w.stages = []stages.Entry{{Name: "held", Release: stages.Gone, Stage: held}}
		one, two := newPod("1", v1.RestartPolicyAlways, "a"), newPod("2", v1.RestartPolicyAlways, "b")
		w.run(20*time.Second, one, two)
		require.NoError(t, held.Prepare(t.Context(), newPod("of another agent", "")))
		w.Sleep(13 * time.Second)
		require.False(t, held.Holds("of another agent"))
		require.True(t, held.Holds("2"))
		w.set(one)
		w.Sleep(3 * time.Second)
		require.False(t, held.Holds("2"))
		require.True(t, held.Holds("1"))
	})
}

// removals are the removals of containers in progress, by ID.
type removals struct {
	mu    sync.Mutex
	now   map[string]int
	total int
	twice []string
}

func (r *removals) intercept(_ context.Context, _ string, request any) error {
	q, ok := request.(*runtimeapi.RemoveContainerRequest)
	if !ok {
		return nil
	}
	r.mu.Lock()
	r.total++
	if r.now[q.ContainerId]++; r.now[q.ContainerId] > 1 {
		r.twice = append(r.twice, q.ContainerId)
	}
	r.mu.Unlock()
	time.Sleep(300 * time.Millisecond)
	r.mu.Lock()
	r.now[q.ContainerId]--
	r.mu.Unlock()
	return nil
}

// The pruner and the worker of an ending pod never remove containers at the same time.
func TestPrunerAndWorkerRemoveInTurn(t *testing.T) {
	r := &removals{now: map[string]int{}}
	var runs atomic.Int32
	firstFails := fake.Always(func(ctx context.Context, p *fake.Process) int {
		if runs.Add(1) == 1 {
			return 1
		}
		return fake.SleepUntilStopped(ctx, p)
	})
	inHarness(t, fake.Config{Programs: firstFails, Intercept: r.intercept}, func(w *harness) {
		w.run(5*time.Second, newPod("1", v1.RestartPolicyAlways, "a"))
		require.Len(w.t, w.Containers(), 2)
		w.set()
		for range 200 { // a death may be noticed at any time
			w.agent.pruner.add("1", false)
			w.Sleep(10 * time.Millisecond)
		}
		w.requireNothingLeft()
		require.Empty(w.t, r.twice)
		require.Equal(w.t, 2, r.total)
		require.Empty(w.t, w.agent.pruner.postponed)
	})
}

// If a pod's UID returns during the removal of its predecessor, the new pod keeps all it has.
func TestUIDComesBackDuringRemoval(t *testing.T) {
	for _, slow := range []string{"RemoveContainer", "RemovePodSandbox"} {
		t.Run(slow, func(t *testing.T) {
			var runs atomic.Int32
			inHarness(t, fake.Config{Programs: counting(&runs, fake.Exit(0))}, func(w *harness) {
				pod, removing := newPod("1", v1.RestartPolicyNever, "a"), make(chan struct{})
				w.run(20*time.Second, pod)
				w.at(slow, 1, func(context.Context) error {
					close(removing)
					time.Sleep(5 * time.Second)
					return nil
				})
				w.set()
				<-removing
				w.set(pod)
				w.Sleep(time.Minute)
				require.EqualValues(w.t, 2, runs.Load())
				require.Len(w.t, w.Containers(), 1)
				require.FileExists(w.t, filepath.Join(pods.LogDir(w.logs(), "ns", "pod-1", "1"), "a", "0.log"))
			})
		})
	}
}

// The pruner checks again, when it has access, whether all containers may be removed: the pod may
// have returned under its UID, and its last dead container has the restart count.
func TestPrunerChecksAgain(t *testing.T) {
	inHarness(t, fake.Config{Programs: fake.Always(fake.Exit(1))}, func(w *harness) {
		w.run(5*time.Second, newPod("1", v1.RestartPolicyAlways, "a"))
		require.NotEmpty(w.t, w.Containers())
		w.agent.pruner.add("1", true)
		w.Sleep(time.Second)
		require.NotEmpty(w.t, w.Containers())
	})
}

// An orphan that still runs keeps its logs until it is stopped, even if a collection comes first.
func TestCollectionLeavesWhatRuns(t *testing.T) {
	inHarness(t, fake.Config{Programs: fake.ByContainer(nil, fake.SleepUntilStopped)}, func(w *harness) {
		w.run(5*time.Second, newPod("1", v1.RestartPolicyAlways, "a"))
		w.crash()
		w.agent = w.newNode() // it does not run
		require.NoError(w.t, w.agent.merger.Set("file", nil, nil))
		w.agent.merger.Handled("file")
		w.agent.workers.SyncKnownPods(nil)
		require.True(w.t, w.agent.unused("1"))
		w.agent.collector.collect(w.t.Context())
		require.DirExists(w.t, pods.LogDir(w.logs(), "ns", "pod-1", "1"))
		require.Len(w.t, w.Running(), 1)
	})
}

// RemoveDeadContainers also removes the containers of ended pods. It spares running pods, and all
// pods until the sources are ready.
func TestRemoveDeadContainers(t *testing.T) {
	inHarness(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"b": fake.SleepUntilStopped}, fake.Exit(0))}, func(w *harness) {
		w.run(5*time.Second, newPod("1", v1.RestartPolicyNever, "a"), newPod("2", v1.RestartPolicyNever, "a", "b"))
		require.Len(w.t, w.Containers(), 3)
		w.agent.collector.collect(w.t.Context())
		require.Len(w.t, w.Containers(), 3)
		require.NoError(w.t, w.agent.RemoveDeadContainers(w.t.Context()))
		require.Len(w.t, w.Containers(), 2)
		require.Len(w.t, w.Running(), 1)
		require.DirExists(w.t, pods.LogDir(w.logs(), "ns", "pod-1", "1"))
		w.Sleep(time.Minute)
		require.Equal(w.t, v1.PodSucceeded, w.agent.statuses.Get("1").Phase)
		require.Len(w.t, w.Containers(), 2, "it does not start again")
	})
}

// A runtime may refuse for a while to remove a container that it is starting for a dead agent. The
// pod's start or removal waits no longer than that, and the agent retries at a moderate rate.
func TestRuntimeIsStillStarting(t *testing.T) {
	for name, wanted := range map[string]bool{"wanted": true, "not wanted": false} {
		t.Run(name, func(t *testing.T) {
			inHarness(t, fake.Config{Programs: fake.ByContainer(nil, fake.SleepUntilStopped)}, func(w *harness) {
				died := w.calls.DieAt(3, true) // RunPodSandbox, CreateContainer, StartContainer
				w.set(newPod("1", v1.RestartPolicyAlways, "a"))
				w.start()
				<-died
				w.crash()
				var asked []time.Time
				begin := time.Now()
				w.at("RemoveContainer", 0, func(context.Context) error {
					if time.Since(begin) >= 4500*time.Millisecond {
						return nil
					}
					asked = append(asked, time.Now())
					return errors.New("container is in starting state, can't be removed")
				})
				if !wanted {
					w.set()
				}
				w.start()
				for range 120 { // as at the end of other pods
					w.agent.loop.Emit(syncloop.Event{Kind: syncloop.Housekeeping})
					w.Sleep(50 * time.Millisecond)
				}
				if wanted {
					require.Len(w.t, w.Running(), 1)
				} else {
					w.requireNothingLeft()
				}
				require.NotEmpty(w.t, asked)
				require.LessOrEqual(w.t, len(asked), 8)
			})
		})
	}
}

// If a manifest changes without an agent, or an agent dies during the change, the new pod still
// starts after the end of the old one.
func TestOrphanOfTheNameEndsFirst(t *testing.T) {
	ignoring := fake.Always(func(ctx context.Context, _ *fake.Process) int {
		<-ctx.Done()
		return 137
	})
	inHarness(t, fake.Config{Programs: ignoring}, func(w *harness) {
		before, after := newPod("1", v1.RestartPolicyAlways, "a"), newPod("2", v1.RestartPolicyAlways, "a")
		after.Name = before.Name
		w.run(5*time.Second, before)
		w.crash()
		w.set(after)
		w.start()
		for range 100 {
			w.Sleep(100 * time.Millisecond)
			require.LessOrEqual(w.t, len(w.Running()["a"]), 1)
		}
		require.Equal(w.t, map[string][]uint32{"a": {0}}, w.Running())
		for _, c := range w.Containers() {
			require.Equal(w.t, "2", c.Labels[labels.PodUID])
		}
		dirs, err := os.ReadDir(w.logs())
		require.NoError(w.t, err)
		require.Len(w.t, dirs, 1)
	})
}

// A pod that waits for a namesake reports it as its step, and stops waiting when its manifest goes.
func TestWaitForNamesakeEnds(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		before, after := newPod("1", v1.RestartPolicyAlways, "a"), newPod("2", v1.RestartPolicyAlways, "a")
		after.Name = before.Name
		w.run(5*time.Second, before)
		w.crash()
		w.calls.Intercept(func(ctx context.Context, call string, do func() error) error {
			if call == "StopContainer" || call == "StopPodSandbox" {
				return context.DeadlineExceeded
			}
			return do()
		})
		w.run(30*time.Second, after)
		require.Contains(w.t, w.agent.workers.State("2").Step, "the earlier pod with this name: 1")
		require.Len(w.t, w.Running()["a"], 1)
		w.set()
		w.Sleep(10 * time.Second)
		require.Empty(w.t, w.agent.workers.State("2").Name)
		w.calls.Intercept(nil)
		w.end(2 * time.Minute)
	})
}
