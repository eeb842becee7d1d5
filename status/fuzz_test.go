package status

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// dice turns fuzz bytes into choices. After the last byte it returns zeros.
type dice struct{ rest []byte }

func (d *dice) roll(n int) int {
	if len(d.rest) == 0 {
		return 0
	}
	b := int(d.rest[0])
	d.rest = d.rest[1:]
	return b % n
}

func (d *dice) coin() bool { return d.roll(2) == 1 }

func (d *dice) pod() *v1.Pod {
	policies := []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}
	shapes := [][]string{{"a"}, {"a", "b"}, {"i:i", "a"}, {"i:i", "s:s", "i:j", "a", "b"}, {"s:s", "a", "e:e"}}
	pod := podOf(policies[d.roll(3)], shapes[d.roll(len(shapes))]...)
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if d.coin() {
				list[i].ReadinessProbe, list[i].StartupProbe = &v1.Probe{}, &v1.Probe{}
			}
			if d.roll(4) == 3 {
				restartAllRule(&list[i], 42)
			}
		}
	}
	if d.roll(4) == 3 {
		static(pod)
	}
	pod.Spec.HostNetwork = d.roll(8) == 7
	return pod
}

// observation returns a random state of the runtime, independent of the previous one.
func (d *dice) observation(pod *v1.Pod) *observed.Pod {
	if d.roll(8) == 7 {
		return nil
	}
	out := observe()
	out.Sandboxes[0].State = observed.SandboxState(d.roll(3))
	if d.coin() {
		out.Sandboxes, out.IPs = nil, nil
	}
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	names = append(names, "e", "stranger")
	for _, name := range names {
		first := d.roll(4)
		for n := range d.roll(4) {
			c := instance(name, observed.State(d.roll(4)), []option{id(fmt.Sprint(name, (first+n)%4)), attempt(int32(d.roll(5)))})
			if c.State == observed.StateExited {
				c.ExitCode = codeOf(c.ID)
			}
			out.Containers = append(out.Containers, c)
		}
	}
	return out
}

// codeOf returns the exit code of an instance. It is constant, because an instance ends once.
func codeOf(id observed.ContainerID) int32 {
	sum := 0
	for _, b := range []byte(id.ID) {
		sum += int(b)
	}
	return []int32{0, 1, 42, 137, 3}[sum%5]
}

func (d *dice) input(pod *v1.Pod, previous *v1.PodStatus) Input {
	in := Input{Pod: pod, Previous: previous, Observed: d.observation(pod), Terminal: d.roll(8) == 7}
	var probes map[string]probed
	if d.coin() {
		probes = map[string]probed{}
	}
	verdicts := []probe.Verdict{probe.Unknown, probe.Success, probe.Failure}
	for _, name := range []string{"a", "b", "i", "j", "s", "e"} {
		if d.roll(4) == 3 {
			if in.StartFailures == nil {
				in.StartFailures = map[string]podwright.Reason{}
			}
			in.StartFailures[name] = podwright.Reason{Reason: "CrashLoopBackOff"}
		}
		if probes != nil && d.coin() {
			probes[name] = probed{Startup: verdicts[d.roll(3)], Readiness: verdicts[d.roll(3)]}
		}
	}
	in.Probes = results(in.Observed, probes)
	if d.roll(16) == 15 {
		in.Fail = &podwright.Reason{Reason: ReasonDeadlineExceeded}
	}
	if d.roll(16) == 15 {
		in.Override = func(s *v1.PodStatus) {
			s.Phase, s.Reason = v1.PodFailed, "Evicted"
			s.Conditions = append(s.Conditions, is("example.com/evicted", v1.ConditionTrue))
		}
	}
	if d.coin() {
		in.HostIPs = []string{"1.1.1.1", "fd00::1"}[:1+d.roll(2)]
	}
	return in
}

// For every sequence of observations: an end is final, restart counts never decrease, a seen exit
// code is neither replaced nor lost while its instance is the newest or the last one, a second
// call changes nothing, the input is neither changed nor aliased, and the lists are complete.
func FuzzCompute(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("the bytes of this text select a sequence of observations"))
	for seed := range 200 {
		f.Add(script(seed))
	}
	f.Fuzz(checkHistory)
}

func script(seed int) []byte {
	out := make([]byte, 256)
	state := uint32(seed)*2654435761 + 1
	for i := range out {
		state = state*1664525 + 1013904223
		out[i] = byte(state >> 24)
	}
	return out
}

func checkHistory(t *testing.T, script []byte) {
	d := &dice{rest: script}
	pod := d.pod()
	var previous, api *v1.PodStatus
	seen := map[string]int32{}
	at := now
	for range 12 {
		in := d.input(pod, previous)
		at = at.Add(time.Minute)
		in.Now, in.API = at, api
		if d.roll(3) == 2 {
			api = previous // the API server is behind
		}
		if d.roll(10) == 9 {
			in.Pod = deleted(pod.DeepCopy())
			pod = in.Pod
		}
		s := computeTwice(t, in).Status
		t.Logf("observed: %+v\nstatus: %+v", in.Observed, s)
		check(t, pod, &s)
		if previous != nil {
			checkStep(t, in, previous, &s)
		}
		checkEnds(t, in, previous, &s, seen)
		checkStored(t, in, &s)
		final := podstatus.Finalize(pod, s, at)
		if !podfacts.IsStatic(pod) {
			require.True(t, podfacts.IsTerminalPhase(final.Phase))
		}
		previous = &s
		if len(d.rest) == 0 {
			return
		}
	}
}

func check(t *testing.T, pod *v1.Pod, s *v1.PodStatus) {
	t.Helper()
	require.Len(t, s.ContainerStatuses, len(pod.Spec.Containers))
	require.Len(t, s.InitContainerStatuses, len(pod.Spec.InitContainers))
	require.Len(t, s.EphemeralContainerStatuses, len(pod.Spec.EphemeralContainers))
	require.NotEmpty(t, s.Phase)
	for _, c := range append(append([]v1.ContainerStatus(nil), s.ContainerStatuses...), s.InitContainerStatuses...) {
		set := 0
		for _, is := range []bool{c.State.Waiting != nil, c.State.Running != nil, c.State.Terminated != nil} {
			if is {
				set++
			}
		}
		require.Equal(t, 1, set, "exactly one state")
		require.Nil(t, c.LastTerminationState.Running)
		require.Nil(t, c.LastTerminationState.Waiting)
	}
	if cond(*s, v1.PodReady) == "True" {
		require.Equal(t, "True", cond(*s, v1.ContainersReady))
		require.False(t, podfacts.IsTerminalPhase(s.Phase))
	}
}

func checkStep(t *testing.T, in Input, previous, s *v1.PodStatus) {
	t.Helper()
	if podfacts.IsTerminalPhase(previous.Phase) {
		require.Equal(t, previous.Phase, s.Phase)
	}
	require.Equal(t, previous.StartTime, s.StartTime)
	for _, pair := range [][2][]v1.ContainerStatus{
		{previous.ContainerStatuses, s.ContainerStatuses}, {previous.InitContainerStatuses, s.InitContainerStatuses},
		{previous.EphemeralContainerStatuses, s.EphemeralContainerStatuses},
	} {
		for i, old := range pair[0] {
			c := pair[1][i]
			require.Equal(t, old.Name, c.Name)
			require.GreaterOrEqual(t, c.RestartCount, old.RestartCount)
		}
	}
	for _, c := range s.Conditions {
		if old := podfacts.Condition(previous.Conditions, c.Type); old != nil && old.Status == c.Status {
			require.Equal(t, old.LastTransitionTime, c.LastTransitionTime)
		}
	}
}

// checkEnds compares each end with the first one seen for the same instance, and checks that the
// ends of the previous status are kept. Ends that left the status are forgotten.
func checkEnds(t *testing.T, in Input, previous, s *v1.PodStatus, seen map[string]int32) {
	t.Helper()
	shown := map[string]bool{}
	defer func() {
		maps.DeleteFunc(seen, func(id string, _ int32) bool { return !shown[id] })
	}()
	for _, c := range everyContainer(s) {
		for _, end := range []*v1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if end == nil || end.ContainerID == "" {
				continue
			}
			shown[end.ContainerID] = true
			if code, ok := seen[end.ContainerID]; ok {
				require.Equal(t, code, end.ExitCode, "a seen exit code of %s was replaced", end.ContainerID)
			} else if end.Reason != ReasonContainerStatusUnknown && (end.Reason != ReasonRestartingAllContainers || end.ExitCode != podstatus.UnknownExitCode) {
				seen[end.ContainerID] = end.ExitCode
			}
		}
		if previous == nil {
			continue
		}
		for _, old := range everyContainer(previous) {
			if old.Name == c.Name {
				checkKept(t, in, old, c, seen)
			}
		}
	}
}

// checkKept allows a seen end to disappear only if the runtime has a newer end or shows that the
// container never ended.
func checkKept(t *testing.T, in Input, old, c v1.ContainerStatus, seen map[string]int32) {
	t.Helper()
	end, ran := old.State.Terminated, false
	if end == nil {
		end, ran = old.LastTerminationState.Terminated, old.State.Running != nil
	}
	if end == nil {
		return
	}
	code, ok := seen[end.ContainerID]
	if !ok {
		return
	}
	var instances []observed.Container
	if in.Observed != nil {
		for _, instance := range in.Observed.Containers {
			if instance.Name == c.Name {
				instances = append(instances, instance)
			}
		}
	}
	switch {
	case len(instances) > 1: // the runtime's record of the previous instance takes precedence
		return
	case ran && c.State.Running == nil: // the running instance has ended since
		return
	case len(instances) == 1 && instances[0].ID.String() == end.ContainerID:
		if instances[0].State == observed.StateRunning || instances[0].State == observed.StateCreated {
			return // the container still runs
		}
	case len(instances) == 1 && c.State.Waiting != nil && lastID(c.LastTerminationState) == instances[0].ID.String():
		return // a later instance has ended since
	}
	for _, now := range []*v1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
		if now != nil && now.ContainerID == end.ContainerID && now.ExitCode == code {
			return
		}
	}
	require.Fail(t, "lost end", "%s exited with %d\nwas: %s, last %s\nis: %s, last %s\n%+v", end.ContainerID, code,
		short(old.State), short(old.LastTerminationState), short(c.State), short(c.LastTerminationState), in.Observed)
}

func everyContainer(s *v1.PodStatus) (all []v1.ContainerStatus) {
	return append(append(append(all, s.InitContainerStatuses...), s.ContainerStatuses...), s.EphemeralContainerStatuses...)
}

// checkStored checks that the written status equals the computed one after normalization, and
// that one write is enough.
func checkStored(t *testing.T, in Input, s *v1.PodStatus) {
	t.Helper()
	normal := podstatus.Normalize(in.Pod, *s)
	require.True(t, podstatus.Equal(&normal, new(podstatus.Normalize(in.Pod, normal))))
	for _, mayStillRun := range []bool{true, false} {
		there := in.Pod.DeepCopy()
		if in.API != nil {
			there.Status = *in.API.DeepCopy()
		}
		merged := podstatus.Merge(there, &normal, mayStillRun, in.Now)
		if podfacts.IsTerminalPhase(there.Status.Phase) {
			require.Equal(t, there.Status.Phase, merged.Phase)
		}
		if mayStillRun && !podfacts.IsTerminalPhase(there.Status.Phase) {
			require.False(t, podfacts.IsTerminalPhase(merged.Phase))
		}
		if podfacts.IsTerminalPhase(merged.Phase) {
			require.Contains(t, cond(merged, v1.PodReady), "False")
		}
		there.Status = merged
		require.True(t, podstatus.Equal(&merged, new(podstatus.Merge(there, &normal, mayStillRun, in.Now.Add(time.Hour)))), "one write is enough")
	}
}
