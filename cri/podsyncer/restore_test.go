package podsyncer

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/testkit/testagent"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status/checkpoint"
)

// steady lets time pass and requires that a condition does not change.
func (w *harness) steady(d time.Duration, uid types.UID, t v1.PodConditionType, want v1.ConditionStatus) {
	w.t.Helper()
	for range int(d / (50 * time.Millisecond)) {
		w.Sleep(50 * time.Millisecond)
		if got := w.condition(uid, t); got != "" {
			require.Equal(w.t, want, got)
		}
	}
	require.Equal(w.t, want, w.condition(uid, t))
}

// T40, T41: a restart of the agent changes no readiness, and never publishes a different one.
// Started containers get no startup probe, and readiness is per container. This holds for new and
// for old containers.
func TestRestartOfTheAgentChangesNoReadiness(t *testing.T) {
	for _, age := range []time.Duration{5 * time.Second, time.Minute} {
		t.Run(age.String(), func(t *testing.T) {
			a := testagent.NewAnswers()
			a.Set("b ready", 1)
			inHarness(t, fake.Config{Exec: a.Exec()}, func(w *harness) {
				always := v1.ContainerRestartPolicyAlways
				var pods []*v1.Pod
				for _, name := range []string{"a", "b"} {
					pod := newPod(types.UID(name), v1.RestartPolicyAlways, name, "sibling")
					for i := range pod.Spec.Containers {
						c := &pod.Spec.Containers[i]
						c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = asking("started", 3), asking("ready", 1), asking("alive", 3)
					}
					sidecar := pod.Spec.Containers[0]
					sidecar.Name, sidecar.RestartPolicy = "s", &always
					pod.Spec.InitContainers = []v1.Container{sidecar}
					pods = append(pods, pod)
				}
				w.run(age, pods...)
				require.Equal(t, v1.ConditionTrue, w.condition("a", v1.PodReady))
				require.Equal(t, v1.ConditionFalse, w.condition("b", v1.PodReady))
				since := w.agent.statuses.Get("a").StartTime
				moved := transitions(w.agent.statuses.Get("a"))
				started := a.Count("a started")

				for range 2 {
					w.crash()
					a.Set("a started", 1) // a startup probe would fail here
					w.Sleep(30 * time.Second)
					w.start()
					w.steady(30*time.Second, "a", v1.PodReady, v1.ConditionTrue)
					require.Equal(t, v1.ConditionFalse, w.condition("b", v1.PodReady))
					require.True(t, w.container("b", "sibling").Ready)
					require.True(t, w.container("b", "s").Ready)
					require.False(t, w.container("b", "b").Ready)
				}
				require.Equal(t, started, a.Count("a started"))
				require.Equal(t, since.UTC(), w.agent.statuses.Get("a").StartTime.UTC())
				require.Equal(t, moved, transitions(w.agent.statuses.Get("a")))
				for name, attempts := range w.Running() {
					require.Equal(t, map[bool][]uint32{true: {0}, false: {0, 0}}[len(attempts) == 1], attempts, name)
				}
			})
		})
	}
}

func transitions(s *v1.PodStatus) map[v1.PodConditionType]string {
	out := map[v1.PodConditionType]string{}
	for _, c := range s.Conditions {
		out[c.Type] = c.LastTransitionTime.UTC().Format(time.RFC3339)
	}
	return out
}

// A pod of another agent without saved state keeps the readiness of Config.Elsewhere, each
// container until its next probe result. Elsewhere is called once, and not for new pods.
func TestAPodOfAnotherAgentStaysAsReadyAsItWas(t *testing.T) {
	a := testagent.NewAnswers()
	a.Set("b ready", 1)
	inHarness(t, fake.Config{Exec: a.Exec()}, func(w *harness) {
		pod := newPod("1", v1.RestartPolicyAlways, "a", "b")
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].ReadinessProbe = asking("ready", 1)
			pod.Spec.Containers[i].ReadinessProbe.InitialDelaySeconds = 5
		}
		asked := 0
		var known *v1.PodStatus
		w.elsewhere = func(context.Context, *v1.Pod) *v1.PodStatus { asked++; return known }
		w.run(20*time.Second, pod)
		require.Zero(t, asked)
		known = w.agent.statuses.Get("1").DeepCopy()
		moved := transitions(known)
		lose := func() {
			w.crash()
			require.NoError(t, os.Remove(w.statusFile("1")))
			w.start()
			w.Sleep(100 * time.Millisecond)
		}
		lose()
		require.True(t, w.container("1", "a").Ready)
		require.False(t, w.container("1", "b").Ready)
		w.Sleep(20 * time.Second)
		require.True(t, w.container("1", "a").Ready)
		require.Equal(t, moved, transitions(w.agent.statuses.Get("1")))
		require.Equal(t, 1, asked)

		known = nil // no saved status elsewhere
		lose()
		require.False(t, w.container("1", "a").Ready)
		require.Equal(t, 2, asked)
	})
}

// A container that one agent decided to restart is restarted by the next agent.
func TestTheNextAgentRestartsWhatHasFailed(t *testing.T) {
	a := testagent.NewAnswers()
	inHarness(t, fake.Config{Exec: a.Exec()}, func(w *harness) {
		pod := newPod("1", v1.RestartPolicyAlways, "a")
		pod.Spec.Containers[0].LivenessProbe = asking("alive", 3)
		pod.Spec.Containers[0].LivenessProbe.PeriodSeconds = 30
		w.run(20*time.Second, pod)
		w.at("StopContainer", 0, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		a.Set("a alive", 1)
		w.Sleep(100 * time.Second)
		require.Equal(t, map[string][]uint32{"a": {0}}, w.Running())
		w.crash()
		a.Set("a alive", 0)
		w.start()
		w.Sleep(5 * time.Second) // a period is 30 s
		require.Equal(t, map[string][]uint32{"a": {1}}, w.Running())
	})
}

// T9: exit codes and restart counts outlive the containers and the agent.
func TestAnExitCodeOutlivesContainerAndAgent(t *testing.T) {
	var runs atomic.Int32
	program := func(ctx context.Context, p *fake.Process) int {
		if n := runs.Add(1); n <= 2 {
			time.Sleep(time.Second)
			return 40 + int(n)
		}
		return fake.SleepUntilStopped(ctx, p)
	}
	programs := map[string]fake.Program{"a": program, "once": fake.Exit(5)}
	inHarness(t, fake.Config{Programs: fake.ByContainer(programs, fake.SleepUntilStopped)}, func(w *harness) {
		w.run(2*time.Minute, newPod("1", v1.RestartPolicyAlways, "a"), newPod("2", v1.RestartPolicyNever, "once", "b"))
		w.crash()
		losses["dead containers"](w)
		require.Len(t, w.Containers(), 2)
		w.start()
		w.Sleep(30 * time.Second)
		c := w.container("1", "a")
		require.EqualValues(t, 2, c.RestartCount)
		require.NotNil(t, c.LastTerminationState.Terminated)
		require.EqualValues(t, 42, c.LastTerminationState.Terminated.ExitCode)
		once := w.container("2", "once")
		require.NotNil(t, once.State.Terminated, "%s", once.State)
		require.EqualValues(t, 5, once.State.Terminated.ExitCode)
		require.Equal(t, v1.PodRunning, w.agent.statuses.Get("2").Phase)
	})
}

// tells reports whether a record has the end of a container.
func tells(r checkpoint.Record, c *runtimeapi.Container) bool {
	for _, status := range r.Status.ContainerStatuses {
		for _, s := range []v1.ContainerState{status.State, status.LastTerminationState} {
			if s.Terminated != nil && s.Terminated.ContainerID == "fake://"+c.Id {
				return status.RestartCount >= int32(c.Metadata.Attempt)
			}
		}
	}
	return false
}

// Before a sync changes a pod, the observed state is on the disk: an exit code survives a kill of
// the agent at any line.
func TestAnEndIsOnTheDiskBeforeAnythingChanges(t *testing.T) {
	crashing := func(ctx context.Context, _ *fake.Process) int {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		return 9
	}
	inHarness(t, fake.Config{Programs: fake.Always(crashing)}, func(w *harness) {
		w.unsaved = true
		var mu sync.Mutex
		checked := map[string]int{}
		w.calls.Intercept(func(_ context.Context, call string, do func() error) error {
			mu.Lock()
			defer mu.Unlock()
			var ended []*runtimeapi.Container // oldest first
			for _, c := range w.Containers() {
				if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
					ended = append(ended, c)
				}
			}
			slices.SortFunc(ended, func(a, b *runtimeapi.Container) int { return cmp.Compare(a.Metadata.Attempt, b.Metadata.Attempt) })
			if len(ended) == 0 || call != "RemoveContainer" && call != "CreateContainer" && call != "StartContainer" {
				return do()
			}
			record, err := w.store().Load("1")
			require.NoError(t, err, call)
			newest := ended[len(ended)-1]
			if call != "RemoveContainer" {
				checked[call]++
				require.True(t, tells(record, newest), call)
				return do()
			}
			err = do()
			remaining := w.Containers()
			for _, c := range ended { // the record has the end of the removed one, or already of its successor
				if !slices.ContainsFunc(remaining, func(r *runtimeapi.Container) bool { return r.Id == c.Id }) {
					checked[call]++
					require.True(t, tells(record, c) || tells(record, newest), call)
				}
			}
			return err
		})
		w.run(10*time.Minute, newPod("1", v1.RestartPolicyAlways, "a"))
		mu.Lock()
		defer mu.Unlock()
		require.Greater(t, checked["CreateContainer"], 3)
		require.Greater(t, checked["RemoveContainer"], 2)
		require.Greater(t, checked["StartContainer"], 3)
		w.calls.Intercept(nil)
	})
}

// An unreadable file is set aside. It costs its pod the saved state and does not affect other pods.
func TestADamagedMemoryHarmsItsPodOnly(t *testing.T) {
	a := testagent.NewAnswers()
	inHarness(t, fake.Config{Exec: a.Exec()}, func(w *harness) {
		var pods []*v1.Pod
		for _, uid := range []string{"1", "2", "3"} {
			pod := newPod(types.UID(uid), v1.RestartPolicyAlways, "a")
			pod.Spec.Containers[0].ReadinessProbe = asking("ready", 1)
			pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 10
			pods = append(pods, pod)
		}
		w.run(30*time.Second, pods...)
		w.crash()
		file := w.statusFile("2")
		require.NoError(t, os.WriteFile(file, []byte(`{"version":1,"uid":"2","rec`), 0o600))
		require.NoError(t, os.WriteFile(w.statusFile("3"), must(os.ReadFile(w.statusFile("1"))), 0o600))
		w.start()
		w.Sleep(200 * time.Millisecond)
		require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady))
		require.NotEqual(t, v1.ConditionTrue, w.condition("2", v1.PodReady), "nobody knows")
		require.NotEqual(t, v1.ConditionTrue, w.condition("3", v1.PodReady), "the file is of another pod")
		w.Sleep(12 * time.Second)
		for _, pod := range pods {
			require.Equal(t, v1.ConditionTrue, w.condition(pod.UID, v1.PodReady), pod.UID)
			_, err := w.store().Load(pod.UID)
			require.NoError(t, err)
		}
		require.FileExists(t, file+".corrupt")
		require.Equal(t, map[string][]uint32{"a": {0, 0, 0}}, w.Running())
		w.end(30 * time.Second)
	})
}

// A full disk delays neither the start nor the removal of pods. Failed writes are repeated when the
// disk has room.
func TestADiskThatTakesNothing(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		w.start()
		file := w.statusFile("1")
		require.NoError(t, os.MkdirAll(filepath.Join(file+".tmp", "x"), 0o750))
		w.set(newPod("1", v1.RestartPolicyAlways, "a"))
		w.Sleep(10 * time.Second)
		require.Equal(t, map[string][]uint32{"a": {0}}, w.Running())
		require.NoFileExists(t, file)
		require.NoError(t, os.RemoveAll(file+".tmp"))
		w.Sleep(10 * time.Second)
		record, err := w.store().Load("1")
		require.NoError(t, err)
		require.Equal(t, v1.PodRunning, record.Status.Phase)
		require.NoError(t, os.MkdirAll(filepath.Join(file+".tmp", "x"), 0o750))
		w.end(30 * time.Second)
	})
}

// A manifest that goes and returns is a new pod: it has no exit codes or restarts of the former
// one, wherever in the removal the agent was killed.
func TestAPodThatComesBackRemembersNothing(t *testing.T) {
	for n := 0; n <= 6; n++ {
		var runs atomic.Int32
		program := func(ctx context.Context, p *fake.Process) int {
			if runs.Add(1) > 1 {
				return fake.SleepUntilStopped(ctx, p)
			}
			return 3
		}
		inHarness(t, fake.Config{Programs: fake.Always(program)}, func(w *harness) {
			pod := newPod("1", v1.RestartPolicyAlways, "a")
			w.run(time.Minute, pod)
			require.EqualValues(t, 1, w.container("1", "a").RestartCount)
			if n == 0 {
				w.set()
				w.Sleep(10 * time.Second)
			} else {
				died := w.calls.DieAt(n, n%2 == 0)
				w.set()
				select {
				case <-died:
				case <-time.After(time.Minute):
					w.t.Logf("call %d: there are less", n)
				}
				w.crash()
				record, err := w.store().Load("1")
				require.ErrorIs(t, err, os.ErrNotExist, "call %d: %v", n, record.Status.Phase)
				w.start()
			}
			w.set(pod)
			w.Sleep(time.Minute)
			s := w.agent.statuses.Get("1")
			require.Equal(t, v1.PodRunning, s.Phase, "call %d", n)
			require.Len(t, w.Running()["a"], 1)
			if n == 0 {
				require.Nil(t, s.ContainerStatuses[0].LastTerminationState.Terminated)
				require.Zero(t, s.ContainerStatuses[0].RestartCount)
			}
		})
	}
}

// A manifest that returns while its pod ends restarts the containers of a static pod: the restart
// count and the previous state continue under restartPolicy Always only.
func TestAManifestThatReturnsAtOnce(t *testing.T) {
	for policy, restarts := range map[v1.RestartPolicy]int32{v1.RestartPolicyAlways: 1, v1.RestartPolicyNever: 0} {
		slow := func(ctx context.Context, p *fake.Process) int {
			code := fake.SleepUntilStopped(ctx, p)
			time.Sleep(time.Second)
			return code
		}
		inHarness(t, fake.Config{Programs: fake.Always(slow)}, func(w *harness) {
			pod := newPod("1", policy, "a")
			pod.Annotations = map[string]string{podfacts.ConfigSource: "file"}
			w.run(time.Minute, pod)
			w.set()
			synctest.Wait()
			w.set(pod)
			w.Sleep(time.Minute)
			s := w.agent.statuses.Get("1")
			require.Equal(t, v1.PodRunning, s.Phase)
			require.Equal(t, restarts, s.ContainerStatuses[0].RestartCount)
			require.Equal(t, restarts > 0, s.ContainerStatuses[0].LastTerminationState.Terminated != nil)
			require.Equal(t, map[string][]uint32{"a": {uint32(restarts)}}, w.Running())
			w.end(30 * time.Second)
		})
	}
}

// The containers of a dropped pod stop without waiting for the removal of its record; the end of
// the pod waits for it.
func TestADroppedPodDoesNotWaitForTheDisk(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		w.unsaved = true
		w.run(5*time.Second, newPod("u", v1.RestartPolicyAlways, "app"))
		require.Len(t, w.Running()["app"], 1)
		require.FileExists(t, w.statusFile("u"))
		w.diskTakes = 10 * time.Second
		w.set()
		w.Sleep(time.Second)
		require.Empty(t, w.Running())
		require.Equal(t, podworkers.StateTerminating, w.agent.workers.State("u").State)
		w.Sleep(10 * time.Second)
		require.NoFileExists(t, w.statusFile("u"))
		w.diskTakes = 0
		w.Sleep(time.Minute)
		w.requireNothingLeft()
	})
}

// An ended pod stays ended, even if the runtime lost it while no agent ran.
func TestAnEndedPodStaysEnded(t *testing.T) {
	var runs atomic.Int32
	inHarness(t, fake.Config{Programs: counting(&runs, fake.Exit(4))}, func(w *harness) {
		w.run(20*time.Second, newPod("1", v1.RestartPolicyNever, "a"))
		require.Equal(t, v1.PodFailed, w.agent.statuses.Get("1").Phase)
		w.crash()
		losses["everything"](w)
		require.Empty(t, w.Containers())
		w.start()
		w.Sleep(20 * time.Second)
		require.Equal(t, v1.PodFailed, w.agent.statuses.Get("1").Phase)
		require.EqualValues(t, 4, w.container("1", "a").State.Terminated.ExitCode)
		require.EqualValues(t, 1, runs.Load())
	})
}

// A kill that precedes the first sync after a restart, such as an eviction, stops a static pod.
func TestKillBeforeFirstSync(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		pod := newPod("1", v1.RestartPolicyAlways, "a")
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, podfacts.ConfigSource, "file")
		w.run(10*time.Second, pod)
		require.Len(t, w.Running(), 1)
		w.crash()
		n := w.newNode()
		evicted := podworkers.KillOptions{Evict: true, Status: func(s *v1.PodStatus) { s.Phase, s.Reason = v1.PodFailed, "Evicted" }}
		require.NoError(t, n.Workers().UpdatePod(podworkers.Update{Type: podworkers.UpdateKill, Pod: pod, Kill: &evicted}))
		require.NoError(t, n.merger.Register("file"), "no cleanup before its pods are known")
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, n.Run(ctx))
		require.Empty(t, w.Running())
		require.Equal(t, "Evicted", n.Statuses().Get("1").Reason)
	})
}
