package status

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/status/internal/podstatus"
)

// T16, 6.2: messages of current and last terminations are truncated to equal shares, at character
// boundaries.
func TestNormalizeCutsMessages(t *testing.T) {
	pod := podOf(v1.RestartPolicyNever, "i:i", "a", "e:e")
	end := func(text string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Message: text}}
	}
	long, wide := strings.Repeat("x", 10<<10), strings.Repeat("é", 5<<10)
	s := v1.PodStatus{
		InitContainerStatuses:      []v1.ContainerStatus{{Name: "i", State: end(long), LastTerminationState: end(long)}},
		ContainerStatuses:          []v1.ContainerStatus{{Name: "a", State: end("x" + wide)}},
		EphemeralContainerStatuses: []v1.ContainerStatus{{Name: "e", State: end("short"), LastTerminationState: end(long)}},
	}
	got := podstatus.Normalize(pod, s)
	require.Equal(t, 4096, len(got.InitContainerStatuses[0].State.Terminated.Message))
	require.Equal(t, 4096, len(got.InitContainerStatuses[0].LastTerminationState.Terminated.Message))
	require.Equal(t, "x"+strings.Repeat("é", 2047), got.ContainerStatuses[0].State.Terminated.Message)
	require.Equal(t, "short", got.EphemeralContainerStatuses[0].State.Terminated.Message)
	require.Equal(t, 4096, len(got.EphemeralContainerStatuses[0].LastTerminationState.Terminated.Message))
	require.Equal(t, long, s.InitContainerStatuses[0].State.Terminated.Message, "the input is not changed")
	require.Equal(t, 12288, len(podstatus.Normalize(podOf(v1.RestartPolicyNever, "c"), v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c", State: end(long + long)}}}).ContainerStatuses[0].State.Terminated.Message))
	require.Equal(t, long, podstatus.Normalize(&v1.Pod{}, s).InitContainerStatuses[0].State.Terminated.Message, "a pod without containers has no shares")
	require.Equal(t, got, podstatus.Normalize(pod, got))
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
	got := podstatus.Normalize(pod, s)
	require.Equal(t, *untouched, s, "the input is not changed")
	require.True(t, got.StartTime.Time.Equal(whole))
	require.True(t, got.Conditions[0].LastProbeTime.Time.Equal(whole) && got.Conditions[0].LastTransitionTime.Time.Equal(whole))
	require.True(t, got.Conditions[1].LastTransitionTime.IsZero(), "a zero time stays zero")
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
	require.Equal(t, got, podstatus.Normalize(pod, got), "Normalize is idempotent")
	monotonic := metav1.Now()
	require.NotContains(t, podstatus.Normalize(pod, v1.PodStatus{StartTime: &monotonic}).StartTime.Time.String(), "m=", "the monotonic clock reading is removed")
}

// An unsorted list is sorted in a copy.
func TestNormalizeSortsACopy(t *testing.T) {
	pod := podOf(v1.RestartPolicyNever, "i:b", "i:a", "a", "b", "e:a", "e:b")
	given := func() v1.PodStatus {
		return v1.PodStatus{
			InitContainerStatuses:      []v1.ContainerStatus{{Name: "a"}, {Name: "b"}},
			ContainerStatuses:          []v1.ContainerStatus{{Name: "b"}, {Name: "a"}},
			EphemeralContainerStatuses: []v1.ContainerStatus{{Name: "b"}, {Name: "a"}},
		}
	}
	s := given()
	require.Equal(t, v1.PodStatus{
		InitContainerStatuses:      []v1.ContainerStatus{{Name: "b"}, {Name: "a"}},
		ContainerStatuses:          []v1.ContainerStatus{{Name: "a"}, {Name: "b"}},
		EphemeralContainerStatuses: []v1.ContainerStatus{{Name: "a"}, {Name: "b"}},
	}, podstatus.Normalize(pod, s))
	require.Equal(t, given(), s)
}
