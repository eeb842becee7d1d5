package status

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/pleg/observed"
)

// The phase of a pod that the node ends follows from its exit codes and its restart policy. Each
// case computes the status at the stop, after it, and once more. TestPhaseOfPodsThatTheNodeEnds of
// examples/kubelet/agent has the same rules with a runtime.
func TestPhaseAfterAnOverride(t *testing.T) {
	evicted := func(s *v1.PodStatus) {
		*s = WithDisruption(podOf("", "a"), *s, "low", now)
		s.Phase, s.Reason, s.Message = v1.PodFailed, "Evicted", "low"
	}
	// A shutdown leaves the phase Succeeded.
	shutDown := func(s *v1.PodStatus) {
		phase := s.Phase
		evicted(s)
		if phase == v1.PodSucceeded {
			s.Phase = phase
		}
	}
	runs := observe(running("a"), running("b"))
	stopped := func(a, b int32) *observed.Pod { return observe(exited("a", a), exited("b", b)) }
	const failed, succeeded, quiet = "Failed Evicted", "Succeeded Evicted", "Succeeded"
	for _, tc := range []struct {
		name                     string
		pod                      *v1.Pod
		first, last              *observed.Pod
		always, onFailure, never string // under each restart policy
		shutDown                 string // not under Always, if it differs for a shutdown
	}{
		{name: "all 0", first: runs, last: stopped(0, 0), always: quiet, onFailure: failed, never: failed},
		{name: "one 1", first: runs, last: stopped(0, 1), always: failed, onFailure: failed, never: failed},
		{name: "one 137", first: runs, last: stopped(137, 0), always: failed, onFailure: failed, never: failed},
		{name: "complete before the stop", first: stopped(0, 0), last: stopped(0, 0), always: quiet, onFailure: quiet, never: quiet, shutDown: succeeded},
		{name: "failed before the stop", first: stopped(0, 1), last: stopped(0, 1), always: failed, onFailure: failed, never: failed},
		{name: "half complete before the stop", first: observe(exited("a", 0), running("b")), last: stopped(0, 0), always: quiet, onFailure: failed, never: failed},
		{name: "never started", first: observe(), last: observe(), always: failed, onFailure: failed, never: failed},
		{name: "lost", first: runs, last: observe(exited("a", 0)), always: failed, onFailure: failed, never: failed},
		{name: "initializing", pod: podOf("", "i:i", "a"), first: observe(running("i")), last: observe(exited("i", 0)), always: failed, onFailure: failed, never: failed},
		{name: "sidecar", pod: podOf("", "s:s", "a"), first: observe(running("s"), running("a")), last: observe(exited("s", 137), exited("a", 0)), always: quiet, onFailure: failed, never: failed},
		{name: "static", pod: static(podOf("", "a", "b")), first: runs, last: stopped(0, 0), always: failed, onFailure: failed, never: failed},
		{name: "not observed", first: runs, last: nil, always: failed, onFailure: failed, never: failed},
	} {
		for policy, want := range map[v1.RestartPolicy]string{v1.RestartPolicyAlways: tc.always, v1.RestartPolicyOnFailure: tc.onFailure, v1.RestartPolicyNever: tc.never} {
			for name, override := range map[string]func(*v1.PodStatus){"evicted": evicted, "shut down": shutDown} {
				want := want
				if name == "shut down" && tc.shutDown != "" && policy != v1.RestartPolicyAlways {
					want = tc.shutDown
				}
				pod := tc.pod
				if pod == nil {
					pod = podOf("", "a", "b")
				}
				pod = pod.DeepCopy()
				pod.Spec.RestartPolicy = policy
				in := Input{Pod: pod, Observed: runs, API: &v1.PodStatus{Phase: v1.PodRunning}, Now: now}
				if tc.first.Newest("i") != nil || len(tc.first.Containers) == 0 {
					in.Observed = tc.first
				}
				s := computed(t, in).Status
				in.Observed, in.Override, in.Previous = tc.first, override, &s
				first := computeTwice(t, in).Status
				in.Previous = &first
				require.Equal(t, first.Phase, computeTwice(t, in).Status.Phase, "%s %s %s: the stop is repeated", tc.name, policy, name)
				in.Observed, in.Terminal, in.Now = tc.last, true, now.Add(time.Second)
				s = computeTwice(t, in).Status
				require.Equal(t, want, strings.TrimSpace(string(s.Phase)+" "+s.Reason), "%s %s %s", tc.name, policy, name)
				require.Equal(t, "True TerminationByKubelet", cond(s, v1.DisruptionTarget), tc.name)
				require.Equal(t, s.Reason == "", s.Message == "")
				in.Override = nil // the next agent has only the status
				in.Previous = &s
				require.Equal(t, s.Phase, computeTwice(t, in).Status.Phase)
			}
		}
	}
}

// A pod with a final phase whose containers have stopped has no waiting container that may have
// run: a reader of the phase finds every exit code.
func TestContainersOfEndedPodsHaveEnded(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyNever} {
		for name, first := range map[string]*observed.Pod{"lost": observe(running("a"), running("b")), "never started": observe(running("a"))} {
			in := Input{Pod: podOf(policy, "a", "b"), Observed: first, Now: now}
			s := computed(t, in).Status
			in.Previous, in.Observed, in.Terminal = &s, observe(exited("a", 0)), true
			in.Fail = &podwright.Reason{Reason: ReasonDeadlineExceeded}
			s = computeTwice(t, in).Status
			require.Equal(t, v1.PodFailed, s.Phase)
			require.Equal(t, []string{"exit 0", lost}, states(s.ContainerStatuses), "%s %s", policy, name)
			require.False(t, s.ContainerStatuses[1].Ready)
		}
	}
}
