package podsyncer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/internal/testkit/testagent"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/filesink"
	"github.com/podwright/podwright/status/writer"
)

// The status shows a mount as recursively read-only if the runtime handler supports that.
func TestRecursiveReadOnlyShows(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		pod := newPod("1", v1.RestartPolicyAlways, "a")
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: new(v1.RecursiveReadOnlyEnabled)}}
		w.run(5*time.Second, pod)
		mounts := w.agent.statuses.Get("1").ContainerStatuses[0].VolumeMounts
		require.Equal(w.t, v1.RecursiveReadOnlyEnabled, *mounts[0].RecursiveReadOnly)
	})
}

// C35: a failed resize shows in the pod's status, with reason Error, and is retried; a successful
// one removes the condition. No container restarts.
func TestFailedResizeShows(t *testing.T) {
	var refuses atomic.Bool
	intercept := func(_ context.Context, call string, _ any) error {
		if call == "UpdateContainerResources" && refuses.Load() {
			return grpcstatus.Error(codes.Internal, "no such cgroup")
		}
		return nil
	}
	inHarness(t, fake.Config{Intercept: intercept}, func(w *harness) {
		condition := func() *v1.PodCondition {
			for _, c := range w.agent.statuses.Get("1").Conditions {
				if c.Type == v1.PodResizeInProgress {
					return &c
				}
			}
			return nil
		}
		pod := newPod("1", v1.RestartPolicyAlways, "a")
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		w.run(5*time.Second, pod)
		require.Nil(w.t, condition())
		refuses.Store(true)
		bigger := pod.DeepCopy()
		bigger.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = resource.MustParse("2")
		w.set(bigger)
		w.Sleep(5 * time.Second)
		c := condition()
		require.NotNil(w.t, c)
		require.Equal(w.t, v1.ConditionTrue, c.Status)
		require.Equal(w.t, v1.PodReasonError, c.Reason)
		require.NotZero(w.t, c.LastProbeTime)
		require.Contains(w.t, c.Message, "no such cgroup")
		since := c.LastTransitionTime
		w.Sleep(2 * time.Minute)
		require.Equal(w.t, since, condition().LastTransitionTime, "it is the same trouble")
		refuses.Store(false)
		w.Sleep(3 * time.Minute)
		require.Nil(w.t, condition())
		require.Len(w.t, w.events.of("1", reasonResizeCompleted), 1)
		require.Equal(w.t, map[string][]uint32{"a": {0}}, w.Running())
	})
}

// The status has the node's addresses, which are also the pod IPs on the host network.
func TestStatusHasNodeAddresses(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		pod := newPod("1", v1.RestartPolicyAlways, "a")
		pod.Spec.HostNetwork = true
		w.hostIPs = func() []string { return []string{"192.0.2.1", "2001:db8::1"} }
		w.run(10*time.Second, pod)
		got := w.agent.statuses.Get("1")
		require.Equal(t, "192.0.2.1", got.HostIP)
		require.Equal(t, []v1.PodIP{{IP: "192.0.2.1"}, {IP: "2001:db8::1"}}, got.PodIPs)
	})
}

// If the runtime fails during a sync, containers that ran before are neither lost nor restarted in
// the status.
func TestWhatWasStartedIsNotLostWithTheRuntime(t *testing.T) {
	var away atomic.Bool
	gone := func(context.Context, string, any) error {
		if away.Load() {
			return grpcstatus.Error(codes.Unavailable, "gone away")
		}
		return nil
	}
	inHarness(t, fake.Config{Intercept: gone}, func(w *harness) {
		w.at("CreateContainer", 2, func(ctx context.Context) error {
			run.Sleep(ctx, 5*time.Second)
			away.Store(true)
			return nil
		})
		w.run(4*time.Second, newPod("1", v1.RestartPolicyAlways, "a", "b"))
		for range 300 {
			a := w.container("1", "a")
			require.NotNil(t, a.State.Running, "%+v", a.State)
			require.Nil(t, a.LastTerminationState.Terminated)
			require.Zero(t, a.RestartCount)
			w.Sleep(100 * time.Millisecond)
		}
		require.True(t, away.Load())
		away.Store(false)
		w.Sleep(time.Minute)
		require.Equal(t, map[string][]uint32{"a": {0}, "b": {0}}, w.Running())
		require.Zero(t, w.container("1", "a").RestartCount)
	})
}

// While one container takes long to start, the status shows the remaining ones, and they are probed.
func TestALongSyncIsShown(t *testing.T) {
	for name, cfg := range map[string]fake.Config{"with events": {}, "without": {Unimplemented: []string{"GetContainerEvents"}}} {
		t.Run(name, func(t *testing.T) {
			a := testagent.NewAnswers()
			a.Set("a ready", 1)
			cfg.Exec = a.Exec()
			inHarness(t, cfg, func(w *harness) {
				w.at("CreateContainer", 2, func(ctx context.Context) error { run.Sleep(ctx, time.Minute); return nil })
				pod := newPod("1", v1.RestartPolicyAlways, "a", "b")
				pod.Spec.Containers[0].ReadinessProbe = asking("ready", 1)
				w.run(5*time.Second, pod)
				require.NotEmpty(t, w.agent.workers.State("1").Step, "the sync goes on")
				require.NotNil(t, w.container("1", "a").State.Running)
				require.NotNil(t, w.container("1", "b").State.Waiting)
				require.False(t, w.container("1", "a").Ready)
				a.Set("a ready", 0)
				w.Sleep(1100 * time.Millisecond)
				require.True(t, w.container("1", "a").Ready)
				require.Equal(t, v1.ConditionFalse, w.condition("1", v1.PodReady))
				w.Sleep(time.Minute)
				require.Equal(t, map[string][]uint32{"a": {0}, "b": {0}}, w.Running())
				require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady))
			})
		})
	}
}

// While one container of a pod takes long to stop, in its preStop handler or after SIGTERM, the
// status shows that another container has ended: it is terminated and not ready, and the pod is not
// ready. The phase does not end before the last container.
func TestALongStopIsShown(t *testing.T) {
	ends := map[string]func(w *harness, pod *v1.Pod){
		"deletion": func(w *harness, pod *v1.Pod) {
			deleted := pod.DeepCopy()
			deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, new(int64(30))
			w.set(deleted)
		},
		"dropped by its source": func(w *harness, pod *v1.Pod) { w.set() },
		"deadline": func(w *harness, pod *v1.Pod) {
			late := pod.DeepCopy()
			late.Spec.ActiveDeadlineSeconds = new(int64(1))
			w.set(late)
		},
		"eviction": func(w *harness, pod *v1.Pod) {
			fails := func(s *v1.PodStatus) { s.Phase, s.Reason = v1.PodFailed, "Evicted" }
			require.NoError(w.t, w.agent.workers.UpdatePod(podworkers.Update{
				Type: podworkers.UpdateKill, Pod: pod, Kill: &podworkers.KillOptions{Evict: true, Status: fails},
			}))
		},
	}
	for end, begin := range ends {
		for name, cfg := range map[string]fake.Config{"with events": {}, "without events": {Unimplemented: []string{"GetContainerEvents"}}} {
			t.Run(end+", "+name, func(t *testing.T) {
				cfg.Programs = fake.ByContainer(map[string]fake.Program{"b": func(ctx context.Context, p *fake.Process) int {
					p.Signals() // SIGTERM has no effect
					<-ctx.Done()
					return 0
				}}, fake.SleepUntilStopped)
				cfg.Exec = testagent.NewAnswers().Exec()
				inHarness(t, cfg, func(w *harness) {
					pod := newPod("1", v1.RestartPolicyAlways, "a", "b")
					pod.Spec.Containers[0].ReadinessProbe = asking("ready", 1)
					pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
					w.run(5*time.Second, pod)
					require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady))
					begin(w, pod)
					w.Sleep(4 * time.Second)
					a := w.container("1", "a")
					require.NotNil(t, a.State.Terminated, "%+v", a.State)
					require.False(t, a.Ready)
					require.NotNil(t, w.container("1", "b").State.Running)
					require.Equal(t, v1.ConditionFalse, w.condition("1", v1.PodReady))
					require.Equal(t, v1.ConditionFalse, w.condition("1", v1.ContainersReady))
				})
			})
		}
	}
}

// A container that ends while another container of its pod stops slowly restarts within seconds.
func TestASlowStopDelaysNoRestart(t *testing.T) {
	for name, cfg := range map[string]fake.Config{"with events": {}, "without events": {Unimplemented: []string{"GetContainerEvents"}}} {
		t.Run(name, func(t *testing.T) {
			answers, b := testagent.NewAnswers(), make(chan struct{})
			cfg.Exec = answers.Exec()
			cfg.Programs = fake.ByContainer(map[string]fake.Program{
				"a": func(ctx context.Context, p *fake.Process) int {
					p.Signals() // SIGTERM has no effect
					<-ctx.Done()
					return 0
				},
				"b": func(ctx context.Context, _ *fake.Process) int {
					select {
					case <-b:
					case <-ctx.Done():
					}
					return 1
				},
			}, nil)
			inHarness(t, cfg, func(w *harness) {
				b = make(chan struct{})
				pod := newPod("1", v1.RestartPolicyAlways, "a", "b")
				pod.Spec.Containers[0].LivenessProbe = asking("alive", 1)
				pod.Spec.TerminationGracePeriodSeconds = new(int64(25))
				w.run(5*time.Second, pod)
				answers.Set("a alive", 1)
				w.Sleep(5 * time.Second)
				answers.Set("a alive", 0)
				b <- struct{}{}
				w.Sleep(4 * time.Second)
				require.Equal(t, map[string][]uint32{"a": {0}, "b": {1}}, w.Running())
				require.NotNil(t, w.container("1", "b").State.Running)
				w.Sleep(25 * time.Second)
				require.Equal(t, map[string][]uint32{"a": {1}, "b": {1}}, w.Running())
			})
		})
	}
}

// An observation from before the creation of a sandbox does not hide the sandbox.
func TestProgressDoesNotGoBack(t *testing.T) {
	for making := 2 * time.Second; making < 4*time.Second; making += 100 * time.Millisecond {
		t.Run(fmt.Sprint("made in ", making), func(t *testing.T) {
			inHarness(t, fake.Config{Unimplemented: []string{"GetContainerEvents"}}, func(w *harness) {
				takes := map[string]time.Duration{"RunPodSandbox": making, "CreateContainer": 5 * time.Second}
				w.calls.Intercept(func(ctx context.Context, call string, do func() error) error {
					run.Sleep(ctx, takes[call])
					return do()
				})
				w.set(newPod("1", v1.RestartPolicyAlways, "a"))
				w.start()
				var seen []v1.ConditionStatus
				for range 200 {
					w.Sleep(50 * time.Millisecond)
					seen = append(seen, w.condition("1", v1.PodReadyToStartContainers))
				}
				require.Equal(t, []v1.ConditionStatus{v1.ConditionFalse, v1.ConditionTrue}, slices.Compact(seen[1:]))
			})
		})
	}
}

// A file sink has exactly the present pods with their statuses, including a pod that was never
// admitted. A pod that one agent refused and the next one runs does not stay Failed: static pods
// may begin anew.
func TestAFileShowsThePods(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		file := must(filesink.New(filesink.Config{Path: filepath.Join(w.dir, "status.json")}))
		w.sinks = []writer.NamedSink{{Name: "file", Sink: file}}
		var pods []*v1.Pod
		for _, uid := range []types.UID{"good", "bad", "static"} {
			pods = append(pods, newPod(uid, v1.RestartPolicyAlways, "a"))
		}
		pods[2].Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		requirePhases := func(want ...v1.PodPhase) {
			for i, pod := range pods {
				require.Equal(t, want[i], file.Status(pod).Phase, pod.UID)
			}
		}
		w.refused = []types.UID{"bad", "static"}
		w.run(3*time.Second, pods...)
		requirePhases(v1.PodRunning, v1.PodFailed, v1.PodFailed)
		w.stop()
		w.refused = []types.UID{"bad"}
		w.start()
		w.Sleep(10 * time.Second)
		requirePhases(v1.PodRunning, v1.PodFailed, v1.PodRunning)
		w.set()
		w.Sleep(10 * time.Second)
		for _, pod := range pods {
			_, err := file.Get(w.t.Context(), status.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
			require.ErrorIs(t, err, status.ErrNotFound)
		}
	})
}

// badSink is a sink whose Put calls put.
type badSink struct {
	status.Sink
	put, prune func() error
}

func (b badSink) Put(*v1.Pod) error                { return b.put() }
func (b badSink) Prune(func(types.UID) bool) error { return b.prune() }

// A sink that fails or hangs stops neither pods nor loops.
func TestABadSinkStopsNoPod(t *testing.T) {
	hang, full := make(chan struct{}), errors.New("the disk is full")
	for name, bad := range map[string]badSink{
		"full": {put: func() error { return full }, prune: func() error { return full }},
		"hung": {put: func() error { <-hang; return nil }, prune: func() error { <-hang; return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			inHarness(t, fake.Config{}, func(w *harness) {
				hang = make(chan struct{})
				bad.Sink = must(filesink.New(filesink.Config{Path: filepath.Join(w.dir, "status.json")}))
				w.sinks = []writer.NamedSink{{Name: "file", Sink: bad}}
				w.refused = []types.UID{"2"}
				w.run(10*time.Second, newPod("2", v1.RestartPolicyAlways, "a"), newPod("1", v1.RestartPolicyAlways, "a"))
				require.Len(t, w.Running(), 1)
				w.set()
				w.Sleep(time.Minute)
				require.Empty(t, w.Running())
				close(hang)
				w.Sleep(time.Minute)
				w.requireNothingLeft()
			})
		})
	}
}

// Calls that ignore their context do not keep Run from ending.
func TestRunIsBoundedByShutdownTimeout(t *testing.T) {
	for want, hangs := range map[string]string{"removing finished pods from status sinks": "Prune", "removing dead containers": "RemoveContainer"} {
		t.Run(want, func(t *testing.T) {
			inHarness(t, fake.Config{Programs: fake.Always(fake.Exit(0))}, func(w *harness) {
				hang := make(chan struct{})
				defer close(hang)
				bad := badSink{Sink: must(filesink.New(filesink.Config{Path: filepath.Join(w.dir, "bad.json")})), put: func() error { return nil }, prune: func() error { return nil }}
				w.at(hangs, 0, func(context.Context) error { <-hang; return nil })
				if hangs == "Prune" {
					bad.prune = func() error { <-hang; return nil }
				}
				good := must(filesink.New(filesink.Config{Path: filepath.Join(w.dir, "good.json")}))
				w.sinks = []writer.NamedSink{{Name: "bad", Sink: bad}, {Name: "good", Sink: good}}
				n := w.newNode()
				ctx, cancel := context.WithCancel(w.t.Context())
				done := make(chan error, 1)
				go func() { done <- n.Run(ctx) }()
				require.NoError(t, n.merger.Set("file", []*v1.Pod{newPod("1", v1.RestartPolicyAlways, "a")}, n.Loop().Emit))
				w.Sleep(time.Minute)
				require.NoError(t, n.merger.Set("file", nil, n.Loop().Emit))
				w.Sleep(10 * time.Second)
				if hangs == "Prune" {
					_, err := good.Get(w.t.Context(), status.Ref{Namespace: "default", Name: "1", UID: "1"})
					require.ErrorIs(t, err, status.ErrNotFound)
				}
				begun := time.Now()
				cancel()
				err := <-done
				require.ErrorIs(t, err, ErrShutdownTimeout)
				require.ErrorContains(t, err, "podsyncer: still running after the shutdown timeout (10s): "+want)
				require.Equal(t, 10*time.Second, time.Since(begun))
			})
		})
	}
}
