package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// T12: instances of the runtime with a previous status, in addition to the cases of the corpus.
func TestObservedInstances(t *testing.T) {
	none := v1.ContainerState{}
	givenUp := wasTerminated(137, ReasonContainerStatusUnknown)
	givenUp.Terminated.ContainerID = "fake://c-1"
	for _, tc := range []struct {
		name        string
		old         *v1.PodStatus
		instances   []observed.Container
		state, last string
		restarts    int32
	}{
		{"replaced an unknown one", was("c", "c-0", 2, wasTerminated(137, ReasonContainerStatusUnknown), none), []observed.Container{running("c", id("c-1"), attempt(2))}, "running", "exit 137 ContainerStatusUnknown", 2},
		{"unknown after two seen ends", was("c", "c-0", 1, wasTerminated(3, "Error"), wasTerminated(4, "")), []observed.Container{unknown("c", attempt(1))}, "exit 3 Error", "exit 4", 1},
		{"unknown and without an ID", was("c", "", 1, wasWaiting("x"), wasTerminated(3, "")), []observed.Container{unknown("c", id(""), attempt(1))}, "waiting", "exit 3", 1},
		{"replaced a container reset by RestartAllContainers", was("c", "c-0", 2, wasTerminated(137, ReasonRestartingAllContainers), none), []observed.Container{running("c", id("c-1"), attempt(2))}, "running", "exit 137 RestartingAllContainers", 2},
		{"given up, then running", was("c", "c-1", 2, wasWaiting("x"), givenUp), []observed.Container{running("c", id("c-1"), attempt(1)), exited("c", 3)}, "running", "exit 3", 2},
		{"created anew", nil, []observed.Container{created("c", attempt(1))}, "waiting", "", 0},
		{"created after a container that ran", was("c", "c-0", 0, wasRunning(), none), []observed.Container{created("c", id("c-1"), attempt(1)), exited("c", 3)}, "waiting", "exit 3", 0},
		{"image name unknown", nil, []observed.Container{running("c", image(""))}, "running", "", 0},
		{"replaced, count repeated", was("c", "c-0", 1, wasTerminated(3, ""), none), []observed.Container{running("c", id("c-1"), attempt(1))}, "running", "exit 3", 2},
		{"replaced while running", was("c", "c-0", 0, wasRunning(), wasTerminated(4, "")), []observed.Container{running("c", id("c-1"), attempt(1))}, "running", "exit 4", 1},
		{"runs again", was("c", "c-0", 1, wasTerminated(3, "Error"), none), []observed.Container{running("c", attempt(1))}, "running", "", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := compute(t, Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Previous: tc.old, Observed: observe(tc.instances...)})
			c := s.ContainerStatuses[0]
			require.Equal(t, [2]string{tc.state, tc.last}, [2]string{short(c.State), short(c.LastTerminationState)})
			require.Equal(t, tc.restarts, c.RestartCount)
			require.Equal(t, "image/c", c.Image)
			require.Equal(t, "ref/c", c.ImageID, "the reference with the digest")
			require.Equal(t, tc.instances[0].ID.String(), c.ContainerID)
		})
	}
}

// A final end stays, even if the runtime has lost it and the container's start has failed.
func TestAFinalEndOutlivesAFailedStart(t *testing.T) {
	for policy, want := range map[v1.RestartPolicy]string{
		v1.RestartPolicyNever: "exit 0", v1.RestartPolicyOnFailure: "exit 0", v1.RestartPolicyAlways: "waiting RunContainerError",
	} {
		in := Input{
			Pod: podOf(policy, "c"), Observed: observe(), Previous: was("c", "", 0, wasTerminated(0, ""), v1.ContainerState{}),
			StartFailures: map[string]podwright.Reason{"c": {Reason: "RunContainerError"}},
		}
		s := compute(t, in)
		require.Equal(t, want, short(s.ContainerStatuses[0].State), policy)
		require.NoError(t, podstatus.CheckTransition(in.Pod, in.Previous, &s))
	}
}

// An instance that was created but never started passes its number on: its replacement is the
// same restart.
func TestAContainerThatNeverStartedIsNoRestart(t *testing.T) {
	in := Input{Pod: podOf(v1.RestartPolicyAlways, "c")}
	before := exited("c", 3, id("c-3"), attempt(3))
	for i, step := range []struct {
		observed *observed.Pod
		count    int32
	}{
		{observe(before), 3},
		{observe(created("c", id("c-4"), attempt(4)), before), 3},
		{observe(before), 3},
		{observe(created("c", id("c-4b"), attempt(4)), before), 3},
		{observe(running("c", id("c-4b"), attempt(4)), before), 4},
		{observe(running("c", id("c-4b"), attempt(4)), before), 4},
		{observe(exited("c", 1, id("c-4b"), attempt(4)), before), 4},
		{observe(running("c", id("c-5"), attempt(5))), 5},
	} {
		in.Observed = step.observed
		s := compute(t, in)
		require.Equal(t, step.count, s.ContainerStatuses[0].RestartCount, "step %d", i)
		in.Previous = &s
	}
}

// Functions that combine a pod with an observation reject the observation of another pod.
func TestInputIsChecked(t *testing.T) {
	_, err := Compute(Input{})
	require.EqualError(t, err, "status: Input.Pod is required")
	_, err = Compute(Input{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "mine"}}, Observed: &observed.Pod{UID: "other"}})
	require.EqualError(t, err, `status: Input.Observed: UID is "other", the UID of Input.Pod is "mine"`)
}

// Now defaults to the current time.
func TestNowIsTheDefault(t *testing.T) {
	in := steady()
	in.Previous, in.API, in.Now = &v1.PodStatus{}, &v1.PodStatus{}, time.Time{}
	before := time.Now().Add(-time.Second)
	s := computed(t, in).Status
	require.True(t, s.StartTime.After(before))
	require.NotEmpty(t, s.Conditions)
	for _, c := range s.Conditions {
		require.True(t, c.LastTransitionTime.After(before.Truncate(time.Second).Add(-time.Second)), c.Type)
	}
}
