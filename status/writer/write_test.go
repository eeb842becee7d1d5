package writer_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/internal/podstatus"
	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/status/writer"
)

func TestConfig(t *testing.T) {
	for field, cfg := range map[string]writer.Config{
		"ShutdownTimeout":  {ShutdownTimeout: -1},
		"Sinks[0].Name":    {Sinks: []writer.NamedSink{{Sink: statustest.NewSink()}}},
		"Sinks[1].Name":    {Sinks: append(sinks(statustest.NewSink()), sinks(statustest.NewSink())...)},
		"Sinks[0].Sink":    {Sinks: sinks(nil)},
		"Sinks[1].Sink":    {Sinks: []writer.NamedSink{{Name: "a", Sink: statustest.NewSink()}, {Name: "b", Sink: (*statustest.Sink)(nil)}}},
		"Sinks[0].Mirrors": {Sinks: []writer.NamedSink{{Name: "api", Sink: statustest.NewSink(), Mirrors: true}}},
	} {
		_, err := writer.New(cfg)
		require.ErrorContains(t, err, "writer: Config."+field)
	}
}

// A pod without a complete identity is rejected, and no state of it is stored.
func TestIdentityIsChecked(t *testing.T) {
	w := newWriter(t, writer.Config{})
	for want, pod := range map[string]*v1.Pod{
		"the pod is nil":              nil,
		"metadata.uid is empty":       {ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}},
		"metadata.name is empty":      {ObjectMeta: metav1.ObjectMeta{UID: "a", Namespace: "ns"}},
		"metadata.namespace is empty": {ObjectMeta: metav1.ObjectMeta{UID: "a", Name: "a"}},
	} {
		require.ErrorContains(t, w.Set(pod, v1.PodStatus{Phase: v1.PodRunning}), "writer: ")
		require.ErrorContains(t, w.Set(pod, v1.PodStatus{Phase: v1.PodRunning}), want)
		require.ErrorContains(t, w.Restore(pod, v1.PodStatus{Phase: v1.PodRunning}), want)
		require.ErrorContains(t, w.Terminate(pod), want)
	}
	require.Empty(t, w.Pods())
}

// The delay of a sink counts from the first change that it does not have, including changes
// during a call.
func TestDelayCountsFromFirstChange(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		r.Set(pod, running(pod, false))
		r.pass(0)
		r.sink.SetLatency(4 * time.Second)
		r.behind = nil
		r.Set(pod, withMessage(running(pod, false), "1"))
		r.pass(time.Second)
		first := time.Now()
		r.Set(pod, withMessage(running(pod, false), "2"))
		r.pass(time.Second)
		r.Set(pod, withMessage(running(pod, false), "3"))
		r.pass(3 * time.Second)
		x, _ := r.Explain(pod.UID)
		require.Equal(t, first, x.Since)
		r.pass(time.Minute)
		require.Equal(t, []time.Duration{4 * time.Second, 7 * time.Second}, r.behind)
	})
}

// A sink that already has the status is not behind.
func TestSyncedWithoutAWrite(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		made := newPod("a")
		made.Status = running(made, true)
		made.Status.StartTime = &made.Status.ContainerStatuses[0].State.Running.StartedAt
		pod := r.sink.Put(made)
		r.Set(pod, made.Status)
		r.pass(0)
		require.Zero(t, r.written())
		require.Len(t, r.behind, 1)
	})
}

// T25: equal statuses are written once.
func TestWritesOnce(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		r.Set(pod, running(pod, true))
		r.pass(0)
		require.Equal(t, 1, r.written())
		require.Equal(t, "True", value(&r.pod("a").Status, v1.PodReady))
		r.Set(pod, running(pod, true))
		r.pass(time.Hour)
		later := running(pod, true) // the transition gets a new time
		later.ContainerStatuses = r.Get(pod.UID).ContainerStatuses
		for i := range later.Conditions {
			later.Conditions[i].LastTransitionTime = metav1.Now()
		}
		r.Set(pod, later)
		r.pass(time.Hour)
		require.Zero(t, r.written())
		require.Len(t, r.changed, 1)
		require.True(t, podfacts.Condition(r.Get(pod.UID).Conditions, v1.PodReady).LastTransitionTime.Before(&later.Conditions[0].LastTransitionTime), "the transition time is unchanged")
		require.Len(t, r.behind, 1)
	})
}

// T26: changes by others of the node agent's part are reverted within 10 s; their own data stays.
func TestReconcile(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.sink.Watch(func(pod *v1.Pod) { r.Observe(pod) })
		pod := r.sink.Put(newPod("a"))
		r.Set(pod, running(pod, true))
		r.pass(time.Second)
		r.sink.ForgetCalls()
		r.sink.Change("ns", "a", func(pod *v1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: "example.com/gate", Status: v1.ConditionTrue})
		})
		r.pass(time.Minute)
		require.Empty(t, r.sink.Calls(), "T26 a foreign condition needs no write")
		r.sink.Change("ns", "a", func(pod *v1.Pod) { podfacts.Condition(pod.Status.Conditions, v1.PodReady).Status = v1.ConditionFalse })
		x, _ := r.Explain(pod.UID)
		require.Equal(t, "another client changed the status; it is written again", x.Why)
		r.pass(10 * time.Second)
		require.Equal(t, "True", value(&r.pod("a").Status, v1.PodReady))
		require.Equal(t, "True", value(&r.pod("a").Status, "example.com/gate"), "T22 the foreign condition stays")
		require.Len(t, r.sink.Calls(), 1, "the watch makes a Get unnecessary")
		r.pass(time.Hour)
		require.Equal(t, 1, r.written())
	})
}

// An observed pod counts if it is newer than the last result of the sink. If the versions are not
// comparable, the sink's status is read.
func TestObservedVersions(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		alike   bool
		calls   []statustest.Op
	}{
		"older":               {version: "8"},
		"the same":            {version: "9"},
		"newer":               {version: "10", calls: []statustest.Op{statustest.Patch}},
		"newer than 63 bits":  {version: "9223372036854775808", calls: []statustest.Op{statustest.Patch}},
		"newer, equal":        {version: "10", alike: true},
		"not a number":        {version: "x", calls: []statustest.Op{statustest.Get}},
		"not a number, equal": {version: "x", alike: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				var pod *v1.Pod
				for range 8 {
					pod = r.sink.Put(newPod("a"))
				}
				r.Set(pod, running(pod, true))
				r.pass(0)
				r.sink.ForgetCalls()
				seen := r.pod("a")
				require.Equal(t, "9", seen.ResourceVersion)
				if seen.ResourceVersion = c.version; !c.alike {
					seen.Status.Message = "by another"
				}
				r.Observe(seen)
				r.pass(11 * time.Second)
				var calls []statustest.Op
				for _, call := range r.sink.Calls() {
					calls = append(calls, call.Op)
				}
				require.Equal(t, c.calls, calls)
			})
		})
	}
}

// T22: a condition that others add or remove during a write stays so.
func TestForeignConditions(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		made := newPod("a")
		made.Status.Conditions = []v1.PodCondition{{Type: "example.com/stale", Status: v1.ConditionTrue}}
		pod := r.sink.Put(made)
		s := running(pod, true)
		s.Conditions = append(s.Conditions, pod.Status.Conditions...)
		r.sink.Change("ns", "a", func(pod *v1.Pod) {
			pod.Status.Conditions = []v1.PodCondition{{Type: "example.com/new", Status: v1.ConditionTrue}}
		})
		r.Set(pod, s)
		r.pass(0)
		require.Equal(t, "True", value(&r.pod("a").Status, "example.com/new"))
		require.Equal(t, "absent", value(&r.pod("a").Status, "example.com/stale"), "the removed condition stays absent")
		require.Equal(t, "True", value(r.Get(pod.UID), "example.com/stale"), "Get returns the status that was set")
		s.Conditions = append(running(pod, true).Conditions, r.pod("a").Status.Conditions[0])
		require.NoError(t, r.Set(pod, s))
		require.Equal(t, "absent", value(r.Get(pod.UID), "example.com/stale"), "Get also changes without a write")
		require.Equal(t, "True", value(r.Get(pod.UID), "example.com/new"))
	})
}

// T27: a write never affects another pod of the same name.
func TestRecreated(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		r.Set(pod, running(pod, true))
		r.pass(0)
		again := newPod("a")
		again.UID = "another"
		r.sink.Put(again)
		r.sink.ForgetCalls()
		r.Observe(r.sink.MarkDeleted("ns", "a"))
		r.Set(pod, running(pod, false))
		r.pass(time.Minute)
		require.Zero(t, r.written())
		require.Equal(t, v1.PodPending, r.pod("a").Status.Phase)
		x, _ := r.Explain(pod.UID)
		require.NotZero(t, x.Since)
		require.Equal(t, "the sink has no pod of this name and UID", x.Why)
		r.sink.ForgetCalls()
		r.pass(time.Hour)
		require.LessOrEqual(t, len(r.sink.Calls()), 90, "about one Get per minute")
		require.NotNil(t, r.Get(pod.UID), "its containers may still be stopping")
		r.Prune(func(types.UID) bool { return false })
		_, known := r.Explain(pod.UID)
		require.False(t, known, "Prune drops it")
	})
}

// T33: a container does not run again after its final end, whether the end was set or, before the
// first status, only the pod contains it.
func TestIllegalTransition(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		set := r.sink.Put(newPod("a"))
		r.Set(set, ended(set, 3))
		had := newPod("b")
		had.Status = ended(had, 3)
		had = r.sink.Put(had)
		for _, pod := range []*v1.Pod{set, had} {
			revived := running(pod, true)
			revived.Phase = v1.PodFailed
			r.Set(pod, revived)
			r.Change(pod.UID, func(v1.PodStatus) v1.PodStatus { return revived })
			require.Equal(t, int32(3), r.Get(pod.UID).ContainerStatuses[0].State.Terminated.ExitCode)
			r.pass(time.Second)
			require.Equal(t, int32(3), r.pod(pod.Name).Status.ContainerStatuses[0].State.Terminated.ExitCode)
			r.Set(pod, withMessage(ended(pod, 3), "legal"))
			r.pass(time.Second)
			require.Equal(t, "legal", r.pod(pod.Name).Status.Message)
		}
	})
}

// T34: a failed write is retried, with the newest version only.
func TestRetry(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		r.Set(pod, running(pod, false))
		r.pass(0)
		r.sink.ForgetCalls()
		r.sink.SetDown(errDown)
		for i := range 10 {
			r.Set(pod, withMessage(running(pod, false), "message %d", i))
			r.pass(time.Second)
		}
		x, _ := r.Explain(pod.UID)
		require.True(t, !x.Since.IsZero() && !x.NextTry.IsZero())
		require.Greater(t, len(r.sink.Calls()), 2)
		require.ErrorIs(t, x.Err, errDown)
		require.Equal(t, "the status could not be written", x.Why)
		r.sink.SetDown(nil)
		r.pass(10 * time.Second)
		require.Equal(t, 1, r.written())
		require.Equal(t, "message 9", r.pod("a").Status.Message)
		x, _ = r.Explain(pod.UID)
		require.Equal(t, podwright.Explanation{}, x)
		require.GreaterOrEqual(t, r.behind[1], 10*time.Second, "the delay of the sink")
	})
}

// After a first conflict the write is retried at once, after further ones with pauses.
func TestConflict(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		left := 1
		r.sink.Fail(func(c statustest.Call) statustest.Fault {
			if c.Op == statustest.Patch && left > 0 {
				left--
				return statustest.Fault{Err: status.ErrConflict}
			}
			return statustest.Fault{}
		})
		r.Set(pod, running(pod, false))
		r.pass(0)
		require.Equal(t, 1, r.written())
		left = 1 << 30
		r.Set(pod, running(pod, true))
		r.pass(time.Minute)
		require.Less(t, len(r.sink.Calls()), 40)
	})
}

// If the results of a sink show that it ignores a value, the value is not written again.
func TestSinkThatIgnoresAValue(t *testing.T) {
	bubble(t, func(cfg *writer.Config) {
		cfg.Sinks = sinks(&modifyingSink{cfg.Sinks[0].Sink.(*statustest.Sink), func(pod *v1.Pod) *v1.Pod { pod.Status.Message = ""; return pod }})
	}, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		r.Set(pod, running(pod, true))
		r.pass(0)
		r.Set(pod, withMessage(running(pod, true), "mine"))
		r.pass(time.Hour)
		require.Equal(t, 2, r.written())
		x, _ := r.Explain(pod.UID)
		require.Zero(t, x.Since)
		require.Equal(t, "the sink changed values of the written status", x.Why)
	})
}

// 6.2, 7.6: probe results change the status of their container at once.
func TestContainerResults(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		pod := r.sink.Put(newPod("a", "app", "other"))
		pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{}
		s := running(pod, true)
		s.ContainerStatuses[0].Ready = false
		s = podstatus.WithReadiness(pod, s, time.Now())
		r.Set(pod, s)
		r.pass(0)
		before := r.Get(pod.UID)
		r.changed = nil
		r.SetProbed(probed("stranger", "fake://a-app", probe.Readiness, true))
		r.SetProbed(probed(pod.UID, "fake://stranger", probe.Readiness, true))
		r.SetProbed(probed(pod.UID, "fake://a-other", probe.Readiness, true))
		require.Empty(t, r.changed, "unknown pods and containers are ignored")
		r.SetProbed(probed(pod.UID, "fake://a-app", probe.Readiness, true))
		require.Equal(t, []types.UID{pod.UID}, r.changed)
		require.Equal(t, "True", value(r.Get(pod.UID), v1.PodReady))
		require.False(t, before.ContainerStatuses[0].Ready, "a status returned by Get does not change")
		r.pass(0)
		require.Equal(t, "True", value(&r.pod("a").Status, v1.PodReady))
		r.SetProbed(probed(pod.UID, "fake://a-other", probe.Startup, false))
		require.Equal(t, "False", value(r.Get(pod.UID), v1.PodReady))
		require.Equal(t, "False", value(r.Get(pod.UID), v1.ContainersReady))
	})
}

// Each container that terminates is counted once, with its kind.
func TestTerminatedMetric(t *testing.T) {
	var seen []string
	w := newWriter(t, writer.Config{Metrics: writer.Metrics{OnTerminated: func(kind string, ended *v1.ContainerStateTerminated) {
		seen = append(seen, fmt.Sprint(kind, " ", ended.ExitCode))
	}}})
	pod := newPod("a")
	pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	list := func(a, b v1.ContainerState) []v1.ContainerStatus {
		return []v1.ContainerStatus{{Name: "a", State: a}, {Name: "b", State: b}}
	}
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	w.Set(pod, v1.PodStatus{
		InitContainerStatuses:      list(terminated(1), runs),
		ContainerStatuses:          list(runs, runs),
		EphemeralContainerStatuses: list(runs, v1.ContainerState{})[:1],
	})
	require.Empty(t, seen, "the first status")
	s := v1.PodStatus{
		InitContainerStatuses:      list(terminated(1), terminated(2)),
		ContainerStatuses:          list(terminated(3), runs),
		EphemeralContainerStatuses: list(runs, terminated(4)),
	}
	w.Set(pod, s)
	w.Set(pod, withMessage(s, "the same"))
	require.Equal(t, []string{"init_containers 2", "containers 3", "ephemeral_containers 4"}, seen)
}

// The status of a pod that comes from the sink is not read again. Later changes there appear in
// the result of the write, and are reverted at the next resync.
func TestOrigin(t *testing.T) {
	origin := func(cfg *writer.Config) { cfg.Sinks[0].Origin = true }
	bubble(t, origin, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		r.Set(pod, running(pod, true))
		r.pass(0)
		require.Empty(t, r.sink.Calls(statustest.Get))
		require.Equal(t, 1, r.written())
		require.Equal(t, v1.PodRunning, r.pod("a").Status.Phase)

		stale := r.sink.Put(newPod("b"))
		r.sink.Change("ns", "b", func(p *v1.Pod) { p.Status.Message, p.Status.Phase = "by somebody", v1.PodRunning })
		r.Set(stale, running(stale, true))
		r.pass(0)
		require.Empty(t, r.sink.Calls(statustest.Get))
		require.Equal(t, "by somebody", r.pod("b").Status.Message)
		r.pass(10 * time.Second)
		require.Empty(t, r.pod("b").Status.Message)

		other := r.sink.Put(newPod("c"))
		r.sink.SetDown(errors.New("down"))
		r.Set(other, running(other, true))
		r.pass(0)
		r.sink.SetDown(nil)
		r.pass(10 * time.Second)
		require.NotEmpty(t, r.sink.Calls(statustest.Get), "after a failure the status is read again")
		require.Equal(t, v1.PodRunning, r.pod("c").Status.Phase)
	})
}
