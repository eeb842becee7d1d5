package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

func states(statuses []v1.ContainerStatus) (out []string) {
	for _, c := range statuses {
		out = append(out, short(c.State))
	}
	return out
}

const lost = "exit 137 ContainerStatusUnknown"

func TestFinalize(t *testing.T) {
	on := true
	waits := func(name string) v1.ContainerStatus { return v1.ContainerStatus{Name: name, State: wasWaiting("x")} }
	runs := func(name string) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name, State: wasRunning(), Started: &on, Ready: true}
	}
	ended := func(name string, code int32) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name, State: wasTerminated(code, "")}
	}
	again := func(name string) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name, State: wasWaiting("x"), LastTerminationState: wasTerminated(1, "")}
	}
	for _, tc := range []struct {
		name         string
		pod          *v1.Pod
		api          v1.PodStatus
		in           v1.PodStatus
		inits, mains []string
		phase        v1.PodPhase
	}{
		{
			"no init containers", podOf(v1.RestartPolicyAlways, "a", "b", "c"), v1.PodStatus{},
			v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{waits("a"), runs("b"), ended("c", 3)}},
			nil, []string{lost, lost, "exit 3"}, v1.PodFailed,
		},
		{
			"T35 never initialized", podOf(v1.RestartPolicyAlways, "i:i", "i:j", "c"), v1.PodStatus{},
			v1.PodStatus{Phase: v1.PodPending, InitContainerStatuses: []v1.ContainerStatus{waits("i"), waits("j")}, ContainerStatuses: []v1.ContainerStatus{waits("c")}},
			[]string{lost, "waiting x"}, []string{"waiting x"}, v1.PodFailed,
		},
		{
			"the second init ran", podOf(v1.RestartPolicyAlways, "i:i", "i:j", "i:k", "c"), v1.PodStatus{},
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{waits("i"), runs("j"), waits("k")}, ContainerStatuses: []v1.ContainerStatus{waits("c")}},
			[]string{lost, lost, "waiting x"}, []string{"waiting x"}, v1.PodFailed,
		},
		{
			"the last init ran", podOf(v1.RestartPolicyAlways, "i:i", "i:j", "c"), v1.PodStatus{},
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{ended("i", 0), runs("j")}, ContainerStatuses: []v1.ContainerStatus{waits("c")}},
			[]string{"exit 0", lost}, []string{"waiting x"}, v1.PodFailed,
		},
		{
			"the second init was to run again", podOf(v1.RestartPolicyAlways, "i:i", "i:j", "i:k", "c"), v1.PodStatus{},
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{waits("i"), again("j"), waits("k")}, ContainerStatuses: []v1.ContainerStatus{waits("c")}},
			[]string{lost, lost, "waiting x"}, []string{"waiting x"}, v1.PodFailed,
		},
		{
			"the third init ended", podOf(v1.RestartPolicyAlways, "i:i", "i:j", "i:k", "c"), v1.PodStatus{},
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{ended("i", 0), waits("j"), ended("k", 1)}, ContainerStatuses: []v1.ContainerStatus{waits("c")}},
			[]string{"exit 0", lost, "exit 1"}, []string{"waiting x"}, v1.PodFailed,
		},
		{
			"the last init succeeded", podOf(v1.RestartPolicyAlways, "i:i", "c"),
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{ended("i", 0)}},
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{ended("i", 0)}, ContainerStatuses: []v1.ContainerStatus{waits("c")}},
			[]string{"exit 0"}, []string{lost}, v1.PodFailed,
		},
		{
			"the last init failed", podOf(v1.RestartPolicyAlways, "i:i", "c"),
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{ended("i", 1)}},
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{ended("i", 1)}, ContainerStatuses: []v1.ContainerStatus{waits("c")}},
			[]string{"exit 1"}, []string{"waiting x"}, v1.PodFailed,
		},
		{
			"the last init is a started sidecar", podOf(v1.RestartPolicyAlways, "s:s", "c"),
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{runs("s")}},
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{runs("s")}, ContainerStatuses: []v1.ContainerStatus{waits("c")}},
			[]string{lost}, []string{lost}, v1.PodFailed,
		},
		{
			"the last init is a sidecar that has not started", podOf(v1.RestartPolicyAlways, "s:s", "c"),
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{{Name: "s", State: wasRunning()}}},
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{runs("s")}, ContainerStatuses: []v1.ContainerStatus{waits("c")}},
			[]string{lost}, []string{"waiting x"}, v1.PodFailed,
		},
		{
			"the last init is a sidecar that has ended", podOf(v1.RestartPolicyAlways, "s:s", "c"),
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{{Name: "s", State: wasTerminated(1, ""), Started: &on}}},
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{ended("s", 1)}, ContainerStatuses: []v1.ContainerStatus{waits("c")}},
			[]string{"exit 1"}, []string{"waiting x"}, v1.PodFailed,
		},
		{
			"a regular container ran", podOf(v1.RestartPolicyAlways, "i:i", "c", "d"),
			v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{runs("c")}},
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{waits("i")}, ContainerStatuses: []v1.ContainerStatus{waits("c"), waits("d")}},
			[]string{lost}, []string{lost, lost}, v1.PodFailed,
		},
		{
			"an end stays an end", podOf(v1.RestartPolicyNever, "c"), v1.PodStatus{},
			v1.PodStatus{Phase: v1.PodSucceeded, ContainerStatuses: []v1.ContainerStatus{ended("c", 0)}},
			nil, []string{"exit 0"}, v1.PodSucceeded,
		},
		{
			"static", static(podOf(v1.RestartPolicyAlways, "c")), v1.PodStatus{},
			v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{runs("c")}},
			nil, []string{lost}, v1.PodRunning,
		},
		{"without containers", podOf(v1.RestartPolicyAlways, "i:i", "c"), v1.PodStatus{}, v1.PodStatus{}, nil, nil, v1.PodFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.pod.Status = tc.api
			untouched := tc.in.DeepCopy()
			got := Finalize(tc.pod, tc.in, now)
			require.True(t, equality.Semantic.DeepEqual(*untouched, tc.in))
			require.Equal(t, tc.inits, states(got.InitContainerStatuses))
			require.Equal(t, tc.mains, states(got.ContainerStatuses))
			require.Equal(t, tc.phase, got.Phase)
			require.Contains(t, cond(got, v1.PodReady), "False", "nothing of it is ready")
			require.Contains(t, cond(got, v1.ContainersReady), "False")
			require.True(t, equality.Semantic.DeepEqual(got, Finalize(tc.pod, got, now.Add(1))), "once is enough")
		})
	}
}

func TestReject(t *testing.T) {
	s := Reject(podOf(v1.RestartPolicyAlways, "c"), "OutOfcpu", "no cpu left")
	require.Equal(t, v1.PodStatus{
		Phase: v1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: no cpu left",
		QOSClass: v1.PodQOSBestEffort, ObservedGeneration: 1,
	}, s)
}
