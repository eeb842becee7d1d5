package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg"
)

// dice turns fuzzed bytes into choices; zeros when they have run out.
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

// observation makes up what the runtime has, with no memory of the one before.
func (d *dice) observation(pod *v1.Pod) *pleg.PodStatus {
	if d.roll(8) == 7 {
		return nil
	}
	codes := []int32{0, 1, 42, 137}
	out := observe()
	out.Sandboxes[0].State = pleg.SandboxState(d.roll(3))
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
			c := instance(name, pleg.State(d.roll(4)), []option{id(fmt.Sprint(name, (first+n)%4)), attempt(int32(d.roll(5)))})
			if c.State == pleg.StateExited {
				c.ExitCode = codes[d.roll(len(codes))]
			}
			out.Containers = append(out.Containers, c)
		}
	}
	return out
}

func (d *dice) input(pod *v1.Pod, previous *v1.PodStatus) Input {
	in := Input{Pod: pod, Previous: previous, Observed: d.observation(pod), Terminal: d.roll(8) == 7}
	if d.coin() {
		in.Probes = map[string]ProbeResults{}
	}
	for _, name := range []string{"a", "b", "i", "j", "s", "e"} {
		if d.roll(4) == 3 {
			if in.StartFailures == nil {
				in.StartFailures = map[string]Reason{}
			}
			in.StartFailures[name] = Reason{Reason: "CrashLoopBackOff"}
		}
		if in.Probes != nil && d.coin() {
			in.Probes[name] = ProbeResults{Startup: Verdict(d.roll(3)), Readiness: Verdict(d.roll(3))}
		}
	}
	if d.roll(16) == 15 {
		in.Fail = &Reason{Reason: ReasonDeadlineExceeded}
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

// Whatever the runtime says, in whatever order: an end is final, counts never
// shrink, an exit code that was seen of an instance is not replaced, computing
// again changes nothing, and the lists are complete.
func FuzzCompute(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a pod's life is a sequence of surprises, and none of them may come as one"))
	for seed := range 64 {
		script := make([]byte, 256)
		state := uint32(seed)*2654435761 + 1
		for i := range script {
			state = state*1664525 + 1013904223
			script[i] = byte(state >> 24)
		}
		f.Add(script)
	}
	f.Fuzz(checkHistory)
}

func checkHistory(t *testing.T, script []byte) {
	d := &dice{rest: script}
	pod := d.pod()
	var previous, api *v1.PodStatus
	at := now
	for range 12 {
		in := d.input(pod, previous)
		at = at.Add(time.Minute)
		in.Now, in.API = at, api
		if d.roll(3) == 2 {
			api = previous // the API server lags behind
		}
		if d.roll(10) == 9 {
			in.Pod = deleted(pod.DeepCopy())
			pod = in.Pod
		}
		s := Compute(in).Status
		again := in
		again.Previous, again.Now = &s, at.Add(time.Second)
		second := Compute(again).Status
		require.True(t, equality.Semantic.DeepEqual(s, second), "not stable: %s\nobserved: %s", diff(&s, &second), observedText(in.Observed))
		check(t, pod, &s)
		if previous != nil {
			checkStep(t, in, previous, &s)
		}
		final := Finalize(pod, s, at)
		if !podfacts.IsStatic(pod) {
			require.True(t, podfacts.IsTerminalPhase(final.Phase))
		}
		previous = &s
		if len(d.rest) == 0 {
			return
		}
	}
}

// diff names the lines of the YAML forms that differ.
func diff(a, b *v1.PodStatus) string {
	x, y := text(a), text(b)
	return "\n- " + strings.Join(without(x, y), "\n- ") + "\n+ " + strings.Join(without(y, x), "\n+ ")
}

func text(s *v1.PodStatus) []string {
	lines := []string{string(s.Phase) + " " + s.Reason + fmt.Sprint(s.PodIPs, s.HostIPs, s.StartTime)}
	for _, c := range append(append(append([]v1.ContainerStatus(nil), s.InitContainerStatuses...), s.ContainerStatuses...), s.EphemeralContainerStatuses...) {
		lines = append(lines, fmt.Sprintf("%s %s: %s, last %s, %d restarts, ready %t, started %t", c.Name, c.ContainerID,
			short(c.State), short(c.LastTerminationState), c.RestartCount, c.Ready, isTrue(c.Started)))
	}
	for _, c := range s.Conditions {
		lines = append(lines, fmt.Sprint(c.Type, c.Status, c.Reason, c.Message, c.LastTransitionTime))
	}
	return lines
}

func without(a, b []string) (out []string) {
	for _, line := range a {
		if !slices.Contains(b, line) {
			out = append(out, line)
		}
	}
	return out
}

func observedText(s *pleg.PodStatus) (out string) {
	if s == nil {
		return "nothing"
	}
	for _, c := range s.Containers {
		out += fmt.Sprintf("\n%s %s #%d code %d", c.ID, c.State, c.RestartCount, c.ExitCode)
	}
	return out
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
	} {
		for i, old := range pair[0] {
			c := pair[1][i]
			require.Equal(t, old.Name, c.Name)
			require.GreaterOrEqual(t, c.RestartCount, old.RestartCount)
			seen := old.State.Terminated
			if seen == nil || unseenReason(seen.Reason) || old.ContainerID != c.ContainerID || c.State.Terminated == nil {
				continue
			}
			if newest := newestOf(in.Observed, c.Name); newest == nil || newest.State != pleg.StateExited {
				require.Equal(t, seen.ExitCode, c.State.Terminated.ExitCode, "an exit code that was seen is not replaced")
			}
		}
	}
	for _, c := range s.Conditions {
		if old := condition(previous.Conditions, c.Type); old != nil && old.Status == c.Status {
			require.Equal(t, old.LastTransitionTime, c.LastTransitionTime)
		}
	}
}

func newestOf(s *pleg.PodStatus, name string) *pleg.ContainerStatus {
	if s == nil {
		return nil
	}
	return s.Newest(name)
}
