package status

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// filled has something in every field of a status. n tells apart what is filled
// with different numbers.
func filled(n int) *v1.PodStatus {
	s := &v1.PodStatus{}
	fill(reflect.ValueOf(s).Elem(), n)
	return s
}

func fill(v reflect.Value, n int) {
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(now.Add(time.Duration(n) * time.Hour))))
		return
	case resource.Quantity:
		v.Set(reflect.ValueOf(*resource.NewQuantity(int64(n), resource.DecimalSI)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", n))
	case reflect.Bool:
		v.SetBool(n%2 == 1)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, n)
		v.SetMapIndex(reflect.ValueOf("cpu").Convert(v.Type().Key()), value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	default:
		panic(v.Kind())
	}
}

// leaves calls visit with the path of every value of a status that can be changed
// alone, and a function that changes it.
func leaves(v reflect.Value, path string, visit func(path string, change func())) {
	switch v.Interface().(type) {
	case metav1.Time, resource.Quantity:
		visit(path, func() { fill(v, 4) })
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		visit(path+" nil", func() { v.SetZero() })
		leaves(v.Elem(), path, visit)
	case reflect.Slice:
		visit(path+" empty", func() { v.SetZero() })
		leaves(v.Index(0), path, visit)
	case reflect.Map:
		visit(path+" empty", func() { v.SetZero() })
		visit(path, func() { fill(v, 4) })
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	default:
		visit(path, func() { fill(v, 4) })
	}
}

// T25, 6.2: every field of a status counts, but for those that are named here.
// A field that a later version of the API adds fails the test until it is decided
// upon.
func TestEqual(t *testing.T) {
	ignored := []string{
		".Conditions.LastProbeTime", ".Conditions.LastTransitionTime", ".Conditions.ObservedGeneration",
		".NominatedNodeName", ".ResourceClaimStatuses", ".ExtendedResourceClaimStatus", ".NodeAllocatableResourceClaimStatuses",
	}
	whole := func() *v1.PodStatus {
		s := filled(3)
		s.Conditions[0].Type = v1.PodReady
		return s
	}
	require.True(t, Equal(whole(), whole()))
	count := 0
	leaves(reflect.ValueOf(whole()).Elem(), "", func(path string, _ func()) {
		count++
		changed := whole()
		var apply func()
		leaves(reflect.ValueOf(changed).Elem(), "", func(p string, change func()) {
			if p == path {
				apply = change
			}
		})
		apply()
		want := false
		for _, prefix := range ignored {
			want = want || strings.HasPrefix(path, prefix)
		}
		require.False(t, equality.Semantic.DeepEqual(whole(), changed), "%s was not changed", path)
		require.Equal(t, want, Equal(whole(), changed), path)
		require.Equal(t, want, Equal(changed, whole()), path)
	})
	require.Greater(t, count, 100)
}

func TestEqualIgnoresForeignConditions(t *testing.T) {
	mine, foreign, disrupted := is(v1.PodReady, v1.ConditionTrue), is("example.com/gate", v1.ConditionTrue), is(v1.DisruptionTarget, v1.ConditionTrue)
	require.True(t, Equal(withConditions(mine), withConditions(foreign, mine)))
	require.False(t, Equal(withConditions(mine), withConditions()), "one of ours is gone")
	require.False(t, Equal(withConditions(), withConditions(mine)))
	require.False(t, Equal(withConditions(mine), withConditions(mine, disrupted)), "we have a say in it")
	require.True(t, Equal(withConditions(mine, disrupted), withConditions(disrupted, mine)), "the order does not count")
	a, b := &v1.PodStatus{}, &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{}, Conditions: []v1.PodCondition{}}
	require.True(t, Equal(a, b))
	a.AllocatedResources, b.AllocatedResources = list("1", ""), list("1000m", "")
	require.True(t, Equal(a, b), "amounts count, not how they are written")
}

// T16, 6.2: texts are cut to an equal share, in current and last terminations, and
// no character is cut in two.
func TestNormalizeCutsMessages(t *testing.T) {
	pod := podOf(v1.RestartPolicyNever, "i:i", "a", "e:e")
	end := func(text string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Message: text}}
	}
	long, wide := strings.Repeat("x", 10<<10), strings.Repeat("é", 5<<10)
	s := v1.PodStatus{
		InitContainerStatuses:      []v1.ContainerStatus{{Name: "i", State: end(long), LastTerminationState: end(long)}},
		ContainerStatuses:          []v1.ContainerStatus{{Name: "a", State: end("x" + wide)}},
		EphemeralContainerStatuses: []v1.ContainerStatus{{Name: "e", State: end("short")}},
	}
	got := Normalize(pod, s)
	require.Equal(t, 4096, len(got.InitContainerStatuses[0].State.Terminated.Message))
	require.Equal(t, 4096, len(got.InitContainerStatuses[0].LastTerminationState.Terminated.Message))
	require.Equal(t, "x"+strings.Repeat("é", 2047), got.ContainerStatuses[0].State.Terminated.Message)
	require.Equal(t, "short", got.EphemeralContainerStatuses[0].State.Terminated.Message)
	require.Equal(t, long, s.InitContainerStatuses[0].State.Terminated.Message, "the input is not changed")
	require.Equal(t, 12288, len(Normalize(podOf(v1.RestartPolicyNever, "c"), v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c", State: end(long + long)}}}).ContainerStatuses[0].State.Terminated.Message))
	require.Equal(t, 4, len(cut("\x80\x80\x80\x80\x80\x80", 4)), "bytes that are no text")
	require.Equal(t, got, Normalize(pod, got))
}

func TestNormalizeTimesAndOrder(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 999, time.FixedZone("", 3600)))
	whole := at.Truncate(time.Second)
	pod := podOf(v1.RestartPolicyNever, "i:second", "i:first", "b", "a")
	s := v1.PodStatus{
		StartTime:  &at,
		Conditions: []v1.PodCondition{{Type: v1.PodReady, LastProbeTime: at, LastTransitionTime: at}, {Type: "foreign"}},
		InitContainerStatuses: []v1.ContainerStatus{
			{Name: "stranger"}, {Name: "first", State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at}}}, {Name: "second"},
		},
		ContainerStatuses: []v1.ContainerStatus{
			{Name: "b"}, {Name: "a", LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{StartedAt: at, FinishedAt: at}}},
		},
	}
	untouched := s.DeepCopy()
	got := Normalize(pod, s)
	require.Equal(t, *untouched, s, "the input is not changed")
	require.True(t, got.StartTime.Time.Equal(whole))
	require.True(t, got.Conditions[0].LastProbeTime.Time.Equal(whole) && got.Conditions[0].LastTransitionTime.Time.Equal(whole))
	require.True(t, got.Conditions[1].LastTransitionTime.IsZero(), "no time stays none")
	names := func(list []v1.ContainerStatus) (out []string) {
		for _, c := range list {
			out = append(out, c.Name)
		}
		return out
	}
	require.Equal(t, []string{"second", "first", "stranger"}, names(got.InitContainerStatuses), "in the order of the spec")
	require.Equal(t, []string{"a", "b"}, names(got.ContainerStatuses))
	require.True(t, got.InitContainerStatuses[1].State.Running.StartedAt.Time.Equal(whole))
	last := got.ContainerStatuses[0].LastTerminationState.Terminated
	require.True(t, last.StartedAt.Time.Equal(whole) && last.FinishedAt.Time.Equal(whole))
	require.Equal(t, got, Normalize(pod, got), "what is normal stays as it is")
	monotonic := metav1.Now()
	require.NotContains(t, Normalize(pod, v1.PodStatus{StartTime: &monotonic}).StartTime.Time.String(), "m=", "no reading of another clock is kept")
}

// T33
func TestCheckTransition(t *testing.T) {
	rule := podOf(v1.RestartPolicyNever, "c")
	restartAllRule(&rule.Spec.Containers[0], 42)
	onFailure := podOf(v1.RestartPolicyNever, "c")
	policy := v1.ContainerRestartPolicyOnFailure
	onFailure.Spec.Containers[0].RestartPolicy = &policy
	one := func(id string, state v1.ContainerState) v1.ContainerStatus {
		return v1.ContainerStatus{Name: "c", ContainerID: id, State: state}
	}
	ended := func(code int32) v1.ContainerStatus { return one("x", wasTerminated(code, "")) }
	waits, runs := one("x", wasWaiting("r")), one("x", wasRunning())
	for _, tc := range []struct {
		name     string
		pod      *v1.Pod
		old, new v1.ContainerStatus
		legal    bool
	}{
		{"T33 never, to waiting", podOf(v1.RestartPolicyNever, "c"), ended(0), waits, false},
		{"T33 never, to running", podOf(v1.RestartPolicyNever, "c"), ended(1), runs, false},
		{"never, its instance forgotten", podOf(v1.RestartPolicyNever, "c"), ended(1), one("", wasWaiting("r")), false},
		{"never, another instance", podOf(v1.RestartPolicyNever, "c"), ended(1), one("y", wasRunning()), true},
		{"T33 restart of all", rule, ended(1), waits, true},
		{"always", podOf(v1.RestartPolicyAlways, "c"), ended(0), waits, true},
		{"no policy", podOf("", "c"), ended(0), waits, true},
		{"on failure, failed", podOf(v1.RestartPolicyOnFailure, "c"), ended(1), waits, true},
		{"on failure, succeeded", podOf(v1.RestartPolicyOnFailure, "c"), ended(0), waits, false},
		{"the container's own policy", onFailure, ended(1), waits, true},
		{"the container's own policy, succeeded", onFailure, ended(0), waits, false},
		{"end to end", podOf(v1.RestartPolicyNever, "c"), ended(1), ended(0), true},
		{"was not ended", podOf(v1.RestartPolicyNever, "c"), runs, waits, true},
		{"init", podOf(v1.RestartPolicyNever, "i:c"), ended(0), waits, false},
		{"init, again in a new sandbox", podOf(v1.RestartPolicyOnFailure, "i:c"), ended(0), one("y", wasRunning()), true},
		{"sidecar", podOf(v1.RestartPolicyNever, "s:c"), ended(0), waits, true},
		{"ephemeral", podOf(v1.RestartPolicyNever, "e:c"), ended(0), waits, true},
		{"another container", podOf(v1.RestartPolicyNever, "d"), ended(0), waits, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status := func(c v1.ContainerStatus) *v1.PodStatus {
				list := []v1.ContainerStatus{c}
				switch {
				case len(tc.pod.Spec.InitContainers) > 0:
					return &v1.PodStatus{InitContainerStatuses: list}
				case len(tc.pod.Spec.EphemeralContainers) > 0:
					return &v1.PodStatus{EphemeralContainerStatuses: list}
				}
				return &v1.PodStatus{ContainerStatuses: list}
			}
			err := CheckTransition(tc.pod, status(tc.old), status(tc.new))
			if tc.legal {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrIllegalTransition)
			require.ErrorContains(t, err, "[c]")
		})
	}
}

// 6.3: what is written over what is there.
func TestMerge(t *testing.T) {
	at := now.Add(time.Hour)
	foreign, stale := is("example.com/new", v1.ConditionTrue), is("example.com/stale", v1.ConditionTrue)
	disrupted := is(v1.DisruptionTarget, v1.ConditionTrue)
	disrupted.Reason = v1.PodReasonTerminationByKubelet
	status := func(phase v1.PodPhase, conditions ...v1.PodCondition) *v1.PodStatus {
		return &v1.PodStatus{Phase: phase, Conditions: conditions}
	}
	merged := func(there, wanted *v1.PodStatus, mayRun bool) v1.PodStatus {
		pod := &v1.Pod{Status: *there}
		before, want := pod.DeepCopy(), wanted.DeepCopy()
		s := Merge(pod, wanted, mayRun, at)
		require.Equal(t, before, pod, "what is there is not changed")
		require.Equal(t, want, wanted)
		return s
	}
	t.Run("T22 foreign conditions are those that are there", func(t *testing.T) {
		s := merged(status(v1.PodRunning, is(v1.PodReady, v1.ConditionFalse), foreign), status(v1.PodRunning, stale, is(v1.PodReady, v1.ConditionTrue), is(v1.PodInitialized, v1.ConditionTrue)), false)
		require.Equal(t, []v1.PodCondition{is(v1.PodReady, v1.ConditionTrue), foreign, is(v1.PodInitialized, v1.ConditionTrue)}, s.Conditions)
	})
	t.Run("conditions of ours that are wanted no more go", func(t *testing.T) {
		s := merged(status(v1.PodRunning, is(v1.PodResizePending, v1.ConditionTrue), foreign), status(v1.PodRunning), false)
		require.Equal(t, []v1.PodCondition{foreign}, s.Conditions)
	})
	t.Run("what others own stays", func(t *testing.T) {
		there := status(v1.PodRunning)
		there.NominatedNodeName, there.ResourceClaimStatuses = "node", []v1.PodResourceClaimStatus{{Name: "claim"}}
		there.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "r"}
		there.NodeAllocatableResourceClaimStatuses = []v1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: "n"}}
		s := merged(there, status(v1.PodRunning), false)
		require.Equal(t, *there, v1.PodStatus{Phase: s.Phase, NominatedNodeName: s.NominatedNodeName, ResourceClaimStatuses: s.ResourceClaimStatuses,
			ExtendedResourceClaimStatus: s.ExtendedResourceClaimStatus, NodeAllocatableResourceClaimStatuses: s.NodeAllocatableResourceClaimStatuses})
	})
	t.Run("T28 an end waits for the containers", func(t *testing.T) {
		there, wanted := status(v1.PodRunning), status(v1.PodFailed, disrupted)
		there.Reason, wanted.Reason, wanted.Message = "r", "Evicted", "m"
		s := merged(there, wanted, true)
		require.Equal(t, [3]string{"Running", "r", ""}, [3]string{string(s.Phase), s.Reason, s.Message})
		require.Nil(t, condition(s.Conditions, v1.DisruptionTarget), "T21 not before the end")
		s = merged(there, wanted, false)
		require.Equal(t, [3]string{"Failed", "Evicted", "m"}, [3]string{string(s.Phase), s.Reason, s.Message})
		require.Equal(t, "True TerminationByKubelet", cond(s, v1.DisruptionTarget), "T21 together with the end")
		require.True(t, condition(s.Conditions, v1.DisruptionTarget).LastTransitionTime.Time.Equal(at))
	})
	t.Run("T21 no end, no disruption", func(t *testing.T) {
		require.Equal(t, "absent", cond(merged(status(v1.PodRunning), status(v1.PodRunning, disrupted), false), v1.DisruptionTarget))
		other := is(v1.DisruptionTarget, v1.ConditionTrue)
		other.Reason = "EvictionByEvictionAPI"
		s := merged(status(v1.PodRunning, other), status(v1.PodRunning, disrupted), false)
		require.Equal(t, "True EvictionByEvictionAPI", cond(s, v1.DisruptionTarget), "another's stays")
		s = merged(status(v1.PodRunning, other), status(v1.PodFailed, disrupted), false)
		require.Equal(t, "True TerminationByKubelet", cond(s, v1.DisruptionTarget))
		require.True(t, condition(s.Conditions, v1.DisruptionTarget).LastTransitionTime.Time.Equal(before), "it was true before")
	})
	t.Run("T19 what has ended is not ready", func(t *testing.T) {
		ready := []v1.PodCondition{is(v1.PodReady, v1.ConditionTrue), is(v1.ContainersReady, v1.ConditionTrue)}
		s := merged(status(v1.PodRunning, ready...), status(v1.PodFailed, ready...), false)
		require.Equal(t, [2]string{"False PodFailed", "False PodFailed"}, [2]string{cond(s, v1.PodReady), cond(s, v1.ContainersReady)})
		require.True(t, condition(s.Conditions, v1.PodReady).LastTransitionTime.Time.Equal(at))
		s = merged(status(v1.PodRunning, ready...), status(v1.PodSucceeded, ready...), false)
		require.Equal(t, "False PodCompleted", cond(s, v1.PodReady))
		s = merged(status(v1.PodRunning, ready...), status(v1.PodFailed, ready...), true)
		require.Equal(t, "True", cond(s, v1.PodReady), "not yet")
		kept := is(v1.PodReady, v1.ConditionFalse)
		kept.Reason = "ContainersNotReady"
		require.Equal(t, "False ContainersNotReady", cond(merged(status(v1.PodRunning), status(v1.PodFailed, kept), false), v1.PodReady))
	})
	t.Run("an end that is there stays, but for mirror pods", func(t *testing.T) {
		there, wanted := status(v1.PodFailed), status(v1.PodRunning, is(v1.PodReady, v1.ConditionTrue))
		there.Reason = "Evicted"
		s := merged(there, wanted, false)
		require.Equal(t, [2]string{"Failed", "Evicted"}, [2]string{string(s.Phase), s.Reason})
		require.Equal(t, "False PodFailed", cond(s, v1.PodReady))
		mirror := &v1.Pod{Status: *there}
		mirror.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"}
		require.Equal(t, v1.PodRunning, Merge(mirror, wanted, false, at).Phase)
	})
	t.Run("T23 the generation never falls", func(t *testing.T) {
		there, wanted := status(v1.PodRunning), status(v1.PodRunning)
		there.ObservedGeneration, wanted.ObservedGeneration = 3, 2
		require.Equal(t, int64(3), merged(there, wanted, false).ObservedGeneration)
	})
	t.Run("nothing to write", func(t *testing.T) {
		in := steady()
		there := Normalize(in.Pod, *in.Previous)
		s := merged(&there, in.Previous, true)
		require.True(t, Equal(&there, &s))
	})
	t.Run("a 10 MB condition from outside is neither copied nor changed", func(t *testing.T) {
		huge := foreign
		huge.Message = strings.Repeat("- yaml\n", 10<<20/7)
		pod := &v1.Pod{Status: *status(v1.PodRunning, huge)}
		wanted := status(v1.PodRunning, is(v1.PodReady, v1.ConditionTrue))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 100 {
			Merge(pod, wanted, false, at)
		}
		runtime.ReadMemStats(&after)
		bytes := (after.TotalAlloc - before.TotalAlloc) / 100
		require.Less(t, bytes, uint64(1<<20))
	})
}

// 6.2: results of probes take effect at once.
func TestWithContainer(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "i:i", "s:s", "a", "b")
	pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{}
	pod.Spec.Containers[1].StartupProbe = &v1.Probe{}
	at := now.Add(time.Hour)
	s := compute(t, Input{Pod: pod, Probes: map[string]ProbeResults{}, Observed: observe(exited("i", 0), running("s"), running("a"), running("b"))})
	require.Equal(t, "False ContainersNotReady", cond(s, v1.PodReady))
	untouched := s.DeepCopy()

	none, changed := WithContainerReady(pod, s, "fake://a-0", false, at)
	require.False(t, changed, "it was not ready before")
	require.Equal(t, s, none)
	for _, id := range []string{"fake://x", "", "fake://i-0"} {
		_, changed = WithContainerReady(pod, s, id, true, at)
		require.False(t, changed, id)
	}
	_, changed = WithContainerReady(pod, s, "fake://b-0", true, at)
	require.False(t, changed, "it has not started")

	s, changed = WithContainerReady(pod, s, "fake://a-0", true, at)
	require.True(t, changed)
	require.True(t, s.ContainerStatuses[0].Ready)
	require.Equal(t, "containers with unready status: [b]", condition(s.Conditions, v1.PodReady).Message)
	s, changed = WithContainerStarted(pod, s, "fake://b-0", true, at)
	require.True(t, changed)
	require.True(t, *s.ContainerStatuses[1].Started && s.ContainerStatuses[1].Ready, "no readiness probe stands in its way")
	require.Equal(t, [2]string{"True", "True"}, [2]string{cond(s, v1.PodReady), cond(s, v1.ContainersReady)})
	require.True(t, condition(s.Conditions, v1.PodReady).LastTransitionTime.Time.Equal(at))
	require.Len(t, s.Conditions, len(untouched.Conditions))
	s, changed = WithContainerReady(pod, s, "fake://s-0", false, at)
	require.True(t, changed)
	require.Equal(t, "False ContainersNotReady", cond(s, v1.PodReady), "T18 a sidecar counts")

	s, changed = WithContainerStarted(pod, *untouched, "fake://a-0", false, at)
	require.True(t, changed)
	require.False(t, *s.ContainerStatuses[0].Started)
	s, _ = WithContainerReady(pod, *untouched, "fake://a-0", true, at)
	s, changed = WithContainerStarted(pod, s, "fake://a-0", false, at)
	require.True(t, changed)
	require.False(t, s.ContainerStatuses[0].Ready, "what has not started is not ready")
	s, changed = WithContainerStarted(pod, s, "fake://a-0", true, at)
	require.True(t, changed)
	require.False(t, s.ContainerStatuses[0].Ready, "it has a readiness probe")

	dead := compute(t, Input{Pod: pod, Observed: observe(exited("a", 1), running("b"))})
	_, changed = WithContainerReady(pod, dead, "fake://a-0", true, at)
	require.False(t, changed, "a late result does not make what has ended ready")
	_, changed = WithContainerStarted(pod, dead, "fake://a-0", true, at)
	require.False(t, changed)
	require.Equal(t, *untouched, *untouched.DeepCopy())
}

func TestWithContainerLeavesTheInput(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "a")
	pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{}
	s := compute(t, Input{Pod: pod, Probes: map[string]ProbeResults{}, Observed: observe(running("a"))})
	untouched := s.DeepCopy()
	ready, changed := WithContainerReady(pod, s, "fake://a-0", true, now.Add(time.Hour))
	require.True(t, changed)
	_, changed = WithContainerStarted(pod, ready, "fake://a-0", false, now)
	require.True(t, changed)
	require.True(t, *ready.ContainerStatuses[0].Started)
	WithReadyToStart(pod, s, now)
	WithDisruption(pod, s, "m", now)
	WithResizePending(s, 1, Reason{}, now)
	WithoutResizePending(WithResizePending(s, 1, Reason{}, now))
	require.Equal(t, *untouched, s)
}

// T20: between the sandbox's creation and the next look at the runtime.
func TestWithReadyToStart(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "a")
	s := compute(t, Input{Pod: pod})
	require.Equal(t, "False", cond(s, v1.PodReadyToStartContainers))
	pod.Generation = 2
	s = WithReadyToStart(pod, s, now.Add(time.Hour))
	require.Equal(t, "True", cond(s, v1.PodReadyToStartContainers))
	c := condition(s.Conditions, v1.PodReadyToStartContainers)
	require.True(t, c.LastTransitionTime.Time.Equal(now.Add(time.Hour)))
	require.Equal(t, int64(2), c.ObservedGeneration)
	again := WithReadyToStart(pod, s, now.Add(2*time.Hour))
	require.Equal(t, s, again, "saying it twice changes nothing")
	require.Equal(t, "True", cond(WithReadyToStart(pod, v1.PodStatus{}, now), v1.PodReadyToStartContainers))
}

// T21
func TestWithDisruption(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "a")
	s := compute(t, Input{Pod: pod, Observed: observe(running("a")), Override: func(s *v1.PodStatus) {
		*s = WithDisruption(pod, *s, "The node was low on memory", now)
		s.Phase, s.Reason = v1.PodFailed, "Evicted"
	}})
	c := condition(s.Conditions, v1.DisruptionTarget)
	require.Equal(t, v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "TerminationByKubelet", Message: "The node was low on memory",
		ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(now),
	}, *c)
}

// T24
func TestResizeConditions(t *testing.T) {
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	get := func(s v1.PodStatus, kind v1.PodConditionType) v1.PodCondition {
		c := condition(s.Conditions, kind)
		require.NotNil(t, c)
		require.Equal(t, v1.ConditionTrue, c.Status)
		return *c
	}
	s := WithResizePending(v1.PodStatus{}, 2, Reason{Reason: "NoSpace", Message: "full"}, at(1))
	c := get(s, v1.PodResizePending)
	require.Equal(t, [2]string{v1.PodReasonDeferred, "full"}, [2]string{c.Reason, c.Message}, "every other reason becomes Deferred")
	s = WithResizePending(s, 3, Reason{Reason: v1.PodReasonDeferred, Message: "still full"}, at(2))
	c = get(s, v1.PodResizePending)
	require.Equal(t, int64(3), c.ObservedGeneration, "it takes the newest generation")
	require.Equal(t, "still full", c.Message)
	require.True(t, c.LastTransitionTime.Time.Equal(at(1)) && c.LastProbeTime.Time.Equal(at(2)), "its reason did not change")
	s = WithResizePending(s, 4, Reason{Reason: v1.PodReasonInfeasible}, at(3))
	c = get(s, v1.PodResizePending)
	require.Equal(t, v1.PodReasonInfeasible, c.Reason)
	require.True(t, c.LastTransitionTime.Time.Equal(at(3)))
	require.Len(t, s.Conditions, 1)

	s = WithoutResizePending(WithResizeInProgress(s, 4, Reason{}, at(4)))
	require.Len(t, s.Conditions, 1)
	require.Empty(t, get(s, v1.PodResizeInProgress).Reason)
	s = WithResizeInProgress(s, 0, Reason{Reason: "whatever", Message: "no such cgroup"}, at(5))
	c = get(s, v1.PodResizeInProgress)
	require.Equal(t, [2]string{v1.PodReasonError, "no such cgroup"}, [2]string{c.Reason, c.Message})
	require.Equal(t, int64(4), c.ObservedGeneration, "it keeps that of the resize it reports")
	require.True(t, c.LastTransitionTime.Time.Equal(at(5)))
	s = WithResizeInProgress(s, 0, Reason{}, at(6))
	c = get(s, v1.PodResizeInProgress)
	require.Equal(t, [2]string{v1.PodReasonError, "no such cgroup"}, [2]string{c.Reason, c.Message}, "saying nothing new keeps what was said")
	require.True(t, c.LastTransitionTime.Time.Equal(at(5)) && c.LastProbeTime.Time.Equal(at(6)))

	// Compute passes it on, with its generation, until the pod ends.
	pod := podOf(v1.RestartPolicyNever, "c")
	pod.Generation = 9
	kept := compute(t, Input{Pod: pod, Previous: &s, Observed: observe(running("c"))})
	require.Equal(t, c, get(kept, v1.PodResizeInProgress))
	ended := compute(t, Input{Pod: pod, Previous: &kept, Observed: observe(exited("c", 0))})
	require.Equal(t, "absent", cond(ended, v1.PodResizeInProgress), "a pod that has ended has none")
	require.Empty(t, WithoutResizeInProgress(s).Conditions)
	require.Equal(t, s, WithoutResizePending(s))
}
