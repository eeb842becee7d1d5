package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg"
)

// T1
func TestNothingYet(t *testing.T) {
	s := compute(t, Input{Pod: podOf(v1.RestartPolicyAlways, "b", "a", "e:x")})
	require.Equal(t, v1.PodPending, s.Phase)
	require.Equal(t, "a", s.ContainerStatuses[0].Name, "sorted by name")
	for _, c := range append(s.ContainerStatuses, s.EphemeralContainerStatuses...) {
		require.Equal(t, "waiting ContainerCreating", short(c.State))
		require.Equal(t, "image/"+c.Name, c.Image)
	}
	s = compute(t, Input{Pod: podOf(v1.RestartPolicyAlways, "c", "s:z", "i:y", "e:x")})
	require.Equal(t, v1.PodPending, s.Phase)
	require.Equal(t, "z", s.InitContainerStatuses[0].Name, "in the order of the spec")
	for _, c := range append(append(s.ContainerStatuses, s.InitContainerStatuses...), s.EphemeralContainerStatuses...) {
		require.Equal(t, "waiting PodInitializing", short(c.State))
	}
}

// The table of containers that the runtime does not have; T9, T10.
func TestUnseen(t *testing.T) {
	none := v1.ContainerState{}
	for _, tc := range []struct {
		name        string
		deleted     bool
		old         *v1.PodStatus
		state, last string
		restarts    int32
		phase       v1.PodPhase
	}{
		{"no old status", false, nil, "waiting ContainerCreating", "", 0, v1.PodPending},
		{"old waiting", false, was("c", "", 2, wasWaiting("ErrImagePull"), none), "waiting ContainerCreating", "", 2, v1.PodPending},
		{"old waiting with a past", false, was("c", "c-0", 2, wasWaiting("x"), wasTerminated(3, "")), "waiting ContainerCreating", "exit 3", 2, v1.PodRunning},
		{"T9 old terminated", false, was("c", "c-0", 2, wasTerminated(0, "Completed"), wasTerminated(3, "")), "exit 0 Completed", "exit 3", 2, v1.PodRunning},
		{"T10 old running", false, was("c", "c-0", 2, wasRunning(), none), "waiting ContainerCreating", "exit 137 ContainerStatusUnknown", 3, v1.PodRunning},
		{"old running with a past", false, was("c", "c-0", 2, wasRunning(), wasTerminated(3, "")), "waiting ContainerCreating", "exit 3", 2, v1.PodRunning},
		{"old running, deleted", true, was("c", "c-0", 2, wasRunning(), none), "waiting ContainerCreating", "exit 137 ContainerStatusUnknown", 2, v1.PodRunning},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := podOf(v1.RestartPolicyAlways, "c")
			if tc.deleted {
				deleted(pod)
			}
			s := compute(t, Input{Pod: pod, Previous: tc.old, Observed: observe()})
			c := s.ContainerStatuses[0]
			require.Equal(t, [2]string{tc.state, tc.last}, [2]string{short(c.State), short(c.LastTerminationState)})
			require.Equal(t, tc.restarts, c.RestartCount)
			require.Equal(t, tc.phase, s.Phase)
			require.False(t, c.Ready)
		})
	}
}

// Nobody having looked is not nothing being there.
func TestNobodyLooked(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "c")
	previous := compute(t, Input{Pod: pod, Observed: observe(running("c"))})
	got := Compute(Input{Pod: pod, Previous: &previous, Now: now})
	require.Equal(t, previous, got.Status)
	s := Compute(Input{Pod: pod, Now: now}).Status
	require.Equal(t, v1.PodPending, s.Phase)
	require.Equal(t, "False", cond(s, v1.PodReadyToStartContainers))
}

// The table of instances that the runtime has, with what the old status adds;
// T12.
func TestSeen(t *testing.T) {
	none := v1.ContainerState{}
	givenUp := wasTerminated(137, ReasonContainerStatusUnknown)
	givenUp.Terminated.ContainerID = "fake://c-1"
	for _, tc := range []struct {
		name        string
		old         *v1.PodStatus
		instances   []pleg.ContainerStatus
		state, last string
		restarts    int32
	}{
		{"running", nil, []pleg.ContainerStatus{running("c", attempt(4))}, "running", "", 4},
		{"created", nil, []pleg.ContainerStatus{created("c")}, "waiting", "", 0},
		{"exited", nil, []pleg.ContainerStatus{exited("c", 3, because("Error"))}, "exit 3 Error", "", 0},
		{"unknown", nil, []pleg.ContainerStatus{unknown("c")}, "waiting", "", 0},
		{"T12 unknown, ran", was("c", "c-0", 1, wasRunning(), none), []pleg.ContainerStatus{unknown("c", attempt(1))}, "exit 137 ContainerStatusUnknown", "", 2},
		{"T12 unknown, waited", was("c", "c-0", 1, wasWaiting("x"), none), []pleg.ContainerStatus{unknown("c", attempt(1))}, "waiting", "", 1},
		{"unknown, but its end was seen", was("c", "c-0", 1, wasTerminated(3, "Error"), none), []pleg.ContainerStatus{unknown("c", attempt(1))}, "exit 3 Error", "", 1},
		{"unknown, runs again", was("c", "c-0", 2, wasTerminated(137, ReasonContainerStatusUnknown), none), []pleg.ContainerStatus{running("c", attempt(1))}, "running", "", 2},
		{"replaced an unknown one", was("c", "c-0", 2, wasTerminated(137, ReasonContainerStatusUnknown), none), []pleg.ContainerStatus{running("c", id("c-1"), attempt(2))}, "running", "exit 137 ContainerStatusUnknown", 2},
		{"unknown, but this end and one before were seen", was("c", "c-0", 1, wasTerminated(3, "Error"), wasTerminated(4, "")), []pleg.ContainerStatus{unknown("c", attempt(1))}, "exit 3 Error", "exit 4", 1},
		{"unknown and without an ID", was("c", "", 1, wasWaiting("x"), wasTerminated(3, "")), []pleg.ContainerStatus{unknown("c", id(""), attempt(1))}, "waiting", "exit 3", 1},
		{"replaced one that was reset", was("c", "c-0", 2, wasTerminated(137, ReasonRestartingAllContainers), none), []pleg.ContainerStatus{running("c", id("c-1"), attempt(2))}, "running", "exit 137 RestartingAllContainers", 2},
		{"given up, and runs after all", was("c", "c-1", 2, wasWaiting("x"), givenUp), []pleg.ContainerStatus{running("c", id("c-1"), attempt(1)), exited("c", 3)}, "running", "exit 3", 2},
		{"created anew", nil, []pleg.ContainerStatus{created("c", attempt(1))}, "waiting", "", 0},
		{"created after one that ran", was("c", "c-0", 0, wasRunning(), none), []pleg.ContainerStatus{created("c", id("c-1"), attempt(1)), exited("c", 3)}, "waiting", "exit 3", 0},
		{"the name of the image is not told", nil, []pleg.ContainerStatus{running("c", image(""))}, "running", "", 0},
		{"the count never shrinks", was("c", "c-0", 7, wasRunning(), none), []pleg.ContainerStatus{running("c", attempt(1))}, "running", "", 7},
		{"the last end stays", was("c", "c-0", 1, wasRunning(), wasTerminated(3, "")), []pleg.ContainerStatus{running("c", attempt(1))}, "running", "exit 3", 1},
		{"replaced", was("c", "c-0", 0, wasTerminated(3, ""), wasTerminated(4, "")), []pleg.ContainerStatus{running("c", id("c-1"), attempt(1))}, "running", "exit 3", 1},
		{"replaced, count lost", was("c", "c-0", 5, wasTerminated(3, ""), none), []pleg.ContainerStatus{running("c", id("c-1"))}, "running", "exit 3", 6},
		{"replaced, count repeated", was("c", "c-0", 1, wasTerminated(3, ""), none), []pleg.ContainerStatus{running("c", id("c-1"), attempt(1))}, "running", "exit 3", 2},
		{"replaced while running", was("c", "c-0", 0, wasRunning(), wasTerminated(4, "")), []pleg.ContainerStatus{running("c", id("c-1"), attempt(1))}, "running", "exit 4", 1},
		{"runs again", was("c", "c-0", 1, wasTerminated(3, "Error"), none), []pleg.ContainerStatus{running("c", attempt(1))}, "running", "", 1},
		{"two instances", was("c", "c-0", 0, wasRunning(), wasTerminated(4, "")), []pleg.ContainerStatus{running("c", id("c-1"), attempt(1)), exited("c", 3)}, "running", "exit 3", 1},
		{"three instances", nil, []pleg.ContainerStatus{exited("c", 1, id("c-2"), attempt(2)), exited("c", 2, id("c-1"), attempt(1)), exited("c", 3)}, "exit 1", "exit 2", 2},
		{"the one before is unknown but ran", was("c", "c-0", 0, wasRunning(), none), []pleg.ContainerStatus{running("c", id("c-1"), attempt(1)), unknown("c")}, "running", "exit 137 ContainerStatusUnknown", 1},
		{"the one before never ran", was("c", "c-1", 1, wasRunning(), wasTerminated(4, "")), []pleg.ContainerStatus{running("c", id("c-1"), attempt(1)), created("c")}, "running", "exit 4", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := compute(t, Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Previous: tc.old, Observed: observe(tc.instances...)})
			c := s.ContainerStatuses[0]
			require.Equal(t, [2]string{tc.state, tc.last}, [2]string{short(c.State), short(c.LastTerminationState)})
			require.Equal(t, tc.restarts, c.RestartCount)
			require.Equal(t, "image/c", c.Image)
			require.Equal(t, "ref/c", c.ImageID, "the digested reference")
			require.Equal(t, tc.instances[0].ID.String(), c.ContainerID)
		})
	}
}

// Whatever text is known already, an ID has its own.
func TestIDText(t *testing.T) {
	for _, id := range []pleg.ContainerID{{}, {Runtime: "fake"}, {Runtime: "fake", ID: "a"}, {Runtime: "fake", ID: "b"}, {Runtime: "other", ID: "a"}} {
		for _, known := range []string{"", "fake", "fake://", "fake://a", "fakea", "other://a", "://", "://a"} {
			require.Equal(t, id.String(), idText(id, known), "%q is known of %+v", known, id)
		}
	}
}

func TestTerminatedFields(t *testing.T) {
	s := compute(t, Input{Pod: podOf(v1.RestartPolicyNever, "c"), Observed: observe(exited("c", 3, func(c *pleg.ContainerStatus) {
		c.Reason, c.Message = "Error", "no disk"
	}))})
	ended := s.ContainerStatuses[0].State.Terminated
	require.Equal(t, int32(3), ended.ExitCode)
	require.Equal(t, [3]string{"Error", "no disk", "fake://c-0"}, [3]string{ended.Reason, ended.Message, ended.ContainerID})
	require.True(t, ended.StartedAt.Time.Equal(before))
	require.Equal(t, ended.FinishedAt.Sub(ended.StartedAt.Time).Seconds(), 60.0)
}

// T13
func TestFailedPulls(t *testing.T) {
	in := Input{
		Pod: podOf(v1.RestartPolicyAlways, "c"), Observed: observe(),
		Previous:      was("c", "", 1, wasWaiting("x"), wasTerminated(3, "")),
		StartFailures: map[string]Reason{"c": {Reason: "ErrImagePull", Message: "no such manifest"}},
	}
	s := compute(t, in)
	require.Equal(t, "waiting ErrImagePull", short(s.ContainerStatuses[0].State))
	require.Equal(t, "no such manifest", s.ContainerStatuses[0].State.Waiting.Message)
	in.Previous, in.StartFailures = &s, map[string]Reason{"c": {Reason: "ImagePullBackOff"}}
	s = compute(t, in)
	require.Equal(t, "waiting ImagePullBackOff", short(s.ContainerStatuses[0].State))
	require.Equal(t, "exit 3", short(s.ContainerStatuses[0].LastTerminationState))
	require.Equal(t, int32(1), s.ContainerStatuses[0].RestartCount)
}

// An end that is final stays, although the runtime has lost it and the container's
// start seemed to have failed.
func TestAFinalEndOutlivesAFailedStart(t *testing.T) {
	for policy, want := range map[v1.RestartPolicy]string{
		v1.RestartPolicyNever: "exit 0", v1.RestartPolicyOnFailure: "exit 0", v1.RestartPolicyAlways: "waiting RunContainerError",
	} {
		in := Input{
			Pod: podOf(policy, "c"), Observed: observe(), Previous: was("c", "", 0, wasTerminated(0, ""), v1.ContainerState{}),
			StartFailures: map[string]Reason{"c": {Reason: "RunContainerError"}},
		}
		s := compute(t, in)
		require.Equal(t, want, short(s.ContainerStatuses[0].State), policy)
		require.NoError(t, CheckTransition(in.Pod, in.Previous, &s))
	}
}

// A container that was created and never started gives up its number: the one that
// replaces it is the same restart, and not one more.
func TestAContainerThatNeverStartedIsNoRestart(t *testing.T) {
	in := Input{Pod: podOf(v1.RestartPolicyAlways, "c")}
	before := exited("c", 3, id("c-3"), attempt(3))
	for i, step := range []struct {
		observed *pleg.PodStatus
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

// T14
func TestCrashLoop(t *testing.T) {
	in := Input{
		Pod: podOf(v1.RestartPolicyAlways, "c"), Observed: observe(exited("c", 3, id("c-1"), attempt(1)), exited("c", 2)),
		StartFailures: map[string]Reason{"c": {Reason: "CrashLoopBackOff"}},
	}
	held := compute(t, in)
	c := held.ContainerStatuses[0]
	require.Equal(t, [2]string{"waiting CrashLoopBackOff", "exit 3"}, [2]string{short(c.State), short(c.LastTerminationState)})
	require.Equal(t, v1.PodRunning, held.Phase)
	in.StartFailures, in.Previous = nil, &held
	c = compute(t, in).ContainerStatuses[0]
	require.Equal(t, [2]string{"exit 3", "exit 2"}, [2]string{short(c.State), short(c.LastTerminationState)}, "without a reason the end stays visible")

	in.Observed = observe(exited("c", 3, id("c-1"), attempt(1)))
	c = compute(t, in).ContainerStatuses[0]
	require.Equal(t, [2]string{"exit 3", ""}, [2]string{short(c.State), short(c.LastTerminationState)}, "one end is not shown twice")
}

// A reason belongs only to a container whose next step is to be started.
func TestWaitingReasonNeedsAStart(t *testing.T) {
	for _, tc := range []struct {
		name     string
		policy   v1.RestartPolicy
		observed []pleg.ContainerStatus
		deleted  bool
		terminal bool
		want     string
	}{
		{"absent", v1.RestartPolicyNever, nil, false, false, "waiting R"},
		{"created", v1.RestartPolicyNever, []pleg.ContainerStatus{created("c")}, false, false, "waiting R"},
		{"unknown", v1.RestartPolicyNever, []pleg.ContainerStatus{unknown("c")}, false, false, "waiting R"},
		{"running", v1.RestartPolicyAlways, []pleg.ContainerStatus{running("c")}, false, false, "running"},
		{"exited, always", v1.RestartPolicyAlways, []pleg.ContainerStatus{exited("c", 0)}, false, false, "waiting R"},
		{"exited, never", v1.RestartPolicyNever, []pleg.ContainerStatus{exited("c", 1)}, false, false, "exit 1"},
		{"exited, on failure", v1.RestartPolicyOnFailure, []pleg.ContainerStatus{exited("c", 1)}, false, false, "waiting R"},
		{"done, on failure", v1.RestartPolicyOnFailure, []pleg.ContainerStatus{exited("c", 0)}, false, false, "exit 0"},
		{"deleted", v1.RestartPolicyAlways, []pleg.ContainerStatus{exited("c", 1)}, true, false, "exit 1"},
		{"deleted and absent", v1.RestartPolicyAlways, nil, true, false, "waiting ContainerCreating"},
		{"stopped for good", v1.RestartPolicyAlways, []pleg.ContainerStatus{exited("c", 1)}, false, true, "exit 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := podOf(tc.policy, "c")
			if tc.deleted {
				deleted(pod)
			}
			s := compute(t, Input{
				Pod: pod, Observed: observe(tc.observed...), Terminal: tc.terminal,
				StartFailures: map[string]Reason{"c": {Reason: "R"}},
			})
			require.Equal(t, tc.want, short(s.ContainerStatuses[0].State))
		})
	}
	s := compute(t, Input{
		Pod: podOf(v1.RestartPolicyAlways, "i:i", "c", "e:e"), Observed: observe(exited("i", 0), exited("e", 0)),
		StartFailures: map[string]Reason{"i": {Reason: "R"}, "e": {Reason: "R"}},
	})
	require.Equal(t, "exit 0", short(s.InitContainerStatuses[0].State), "an init container that succeeded is left alone")
	require.Equal(t, "exit 0", short(s.EphemeralContainerStatuses[0].State), "an ephemeral container runs once")
}

// Once a regular container was there, the reason of an init container that is gone is
// an old one. All others count.
func TestReasonsBesideARegularContainer(t *testing.T) {
	for _, tc := range []struct {
		name      string
		observed  *pleg.PodStatus
		container string
		want      string
	}{
		{"init gone", observe(running("a")), "i", "exit 0 Completed"},
		{"init failed in a new sandbox", observe(exited("i", 1), exited("a", 0, sandbox("old"))), "i", "waiting R"},
		{"sidecar gone", observe(running("a")), "s", "waiting R"},
		{"sidecar done", observe(running("a"), exited("s", 0)), "s", "exit 0"},
		{"sidecar failed", observe(running("a"), exited("s", 1)), "s", "waiting R"},
		{"sibling gone", observe(running("a")), "b", "waiting R"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := compute(t, Input{
				Pod: podOf(v1.RestartPolicyAlways, "i:i", "s:s", "a", "b"), Observed: tc.observed,
				StartFailures: map[string]Reason{tc.container: {Reason: "R"}},
			})
			require.Equal(t, tc.want, short(find(everyContainer(&s), tc.container).State))
		})
	}
}

// T11: init containers whose record was lost.
func TestLostInit(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "i:i", "s:s", "c")
	for name, previous := range map[string]*v1.PodStatus{
		"no old status": nil,
		"old running":   {InitContainerStatuses: []v1.ContainerStatus{{Name: "i", State: wasRunning()}}},
		"old waiting":   {InitContainerStatuses: []v1.ContainerStatus{{Name: "i", State: wasWaiting("x")}}},
	} {
		s := compute(t, Input{
			Pod: pod, Previous: previous, Observed: observe(running("c"), running("s")),
			StartFailures: map[string]Reason{"i": {Reason: "an old one"}},
		})
		require.Equal(t, "exit 0 Completed", short(s.InitContainerStatuses[0].State), name)
		require.Equal(t, "", short(s.InitContainerStatuses[0].LastTerminationState), name)
		require.True(t, s.InitContainerStatuses[0].Ready)
		require.Equal(t, v1.PodRunning, s.Phase)
	}
	s := compute(t, Input{Pod: pod, Observed: observe(running("c"))})
	require.Equal(t, "waiting PodInitializing", short(s.InitContainerStatuses[1].State), "a lost sidecar waits")
	s = compute(t, Input{Pod: pod, Observed: observe(running("s"))})
	require.Equal(t, "waiting PodInitializing", short(s.InitContainerStatuses[0].State), "no regular container was started")
	s = compute(t, Input{Pod: pod, Observed: observe(unknown("c"))})
	require.Equal(t, "waiting PodInitializing", short(s.InitContainerStatuses[0].State), "an unknown one proves nothing")
}

// T15
func TestRestartAll(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "i:i", "a", "b")
	restartAllRule(&pod.Spec.Containers[1], 42)
	ran := compute(t, Input{Pod: pod, Observed: observe(exited("i", 0), running("a"), running("b"))})
	require.Equal(t, "False", cond(ran, v1.AllContainersRestarting))
	require.Equal(t, "True", cond(ran, v1.PodInitialized))

	r := computeAll(t, Input{Pod: pod, Previous: &ran, Observed: observe(exited("i", 0), running("a"), exited("b", 42))})
	require.True(t, r.RestartAll)
	require.Equal(t, "True RestartAllContainersStarted", cond(r.Status, v1.AllContainersRestarting))

	half := computeAll(t, Input{Pod: pod, Previous: &r.Status, Observed: observe(exited("b", 42))})
	require.True(t, half.RestartAll)
	require.Equal(t, "waiting RestartingAllContainers", short(half.Status.ContainerStatuses[0].State))
	require.Equal(t, "waiting RestartingAllContainers", short(half.Status.InitContainerStatuses[0].State))

	gone := computeAll(t, Input{Pod: pod, Previous: &half.Status, Observed: observe()})
	require.False(t, gone.RestartAll)
	require.Equal(t, "False", cond(gone.Status, v1.AllContainersRestarting))
	require.Equal(t, "True", cond(gone.Status, v1.PodInitialized))
	require.Equal(t, v1.PodRunning, gone.Status.Phase)
	for _, c := range append(gone.Status.ContainerStatuses, gone.Status.InitContainerStatuses...) {
		require.Equal(t, "waiting RestartingAllContainers", short(c.State))
		// An end that was seen is kept; a ran.
		want := map[string]string{"i": "exit 0 RestartingAllContainers", "a": "exit 137 RestartingAllContainers", "b": "exit 42 RestartingAllContainers"}
		require.Equal(t, want[c.Name], short(c.LastTerminationState))
		require.Equal(t, int32(1), c.RestartCount)
	}
	again := computeAll(t, Input{Pod: pod, Previous: &gone.Status, Observed: observe(running("i", id("i-1"), attempt(1)))})
	require.False(t, again.RestartAll, "what starts now is not reset again")
	require.Equal(t, "running", short(again.Status.InitContainerStatuses[0].State))
	require.Equal(t, int32(1), again.Status.InitContainerStatuses[0].RestartCount)

	evicted := computeAll(t, Input{Pod: pod, Previous: &ran, Observed: observe(exited("b", 42)), Fail: &Reason{Reason: "Evicted"}})
	require.False(t, evicted.RestartAll, "a pod on its way out restarts nothing")
	leaving := computeAll(t, Input{Pod: deleted(pod.DeepCopy()), Previous: &ran, Observed: observe(exited("b", 42))})
	require.False(t, leaving.RestartAll)
}

// A pod that has ended, or has been stopped for good, restarts nothing.
func TestNoRestartAllAtTheEnd(t *testing.T) {
	pod := podOf(v1.RestartPolicyNever, "i:i", "i:j", "b")
	restartAllRule(&pod.Spec.Containers[0], 42)
	r := computeAll(t, Input{Pod: pod, Observed: observe(exited("j", 1), exited("b", 42))})
	require.Equal(t, v1.PodFailed, r.Status.Phase)
	require.False(t, r.RestartAll)
	require.Equal(t, "exit 0 Completed", short(r.Status.InitContainerStatuses[0].State))

	pod = static(podOf(v1.RestartPolicyNever, "b"))
	restartAllRule(&pod.Spec.Containers[0], 42)
	r = computeAll(t, Input{Pod: pod, Observed: observe(exited("b", 42)), Terminal: true})
	require.False(t, r.RestartAll)
	require.Equal(t, v1.PodRunning, r.Status.Phase)
}

// An instance that was given up is later than the one before it.
func TestGivenUpInstance(t *testing.T) {
	c := compute(t, Input{
		Pod: podOf(v1.RestartPolicyAlways, "c"), Previous: was("c", "c-1", 1, wasRunning(), v1.ContainerState{}),
		Observed:      observe(unknown("c", id("c-1"), attempt(1)), exited("c", 3)),
		StartFailures: map[string]Reason{"c": {Reason: "CrashLoopBackOff"}},
	}).ContainerStatuses[0]
	require.Equal(t, [2]string{"waiting CrashLoopBackOff", lost}, [2]string{short(c.State), short(c.LastTerminationState)})
	require.Equal(t, int32(2), c.RestartCount)
}

// An init container of which nothing is known has not ended well while all containers restart.
func TestRestartAllOfAnUnseenInitContainer(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "i:i", "b")
	restartAllRule(&pod.Spec.Containers[0], 42)
	r := computeAll(t, Input{Pod: pod, Observed: observe(exited("b", 42))})
	require.True(t, r.RestartAll)
	require.Equal(t, "waiting PodInitializing", short(r.Status.InitContainerStatuses[0].State))
}

// RestartAll and a runtime that has lost track.
func TestRestartAllUnknown(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "a", "b")
	restartAllRule(&pod.Spec.Containers[1], 42)
	ran := compute(t, Input{Pod: pod, Observed: observe(running("a"), running("b"))})
	s := compute(t, Input{Pod: pod, Previous: &ran, Observed: observe(unknown("a"), exited("b", 42))})
	require.Equal(t, "exit 137 RestartingAllContainers", short(s.ContainerStatuses[0].State))
	require.Equal(t, int32(1), s.ContainerStatuses[0].RestartCount)
}

func TestVolumeMounts(t *testing.T) {
	enabled, ifPossible, disabled := v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyDisabled
	pod := podOf(v1.RestartPolicyAlways, "c")
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{
		{Name: "rw", MountPath: "/rw"},
		{Name: "ro", MountPath: "/ro", ReadOnly: true},
		{Name: "off", MountPath: "/off", ReadOnly: true, RecursiveReadOnly: &disabled},
		{Name: "try", MountPath: "/try", ReadOnly: true, RecursiveReadOnly: &ifPossible},
		{Name: "on", MountPath: "/on", ReadOnly: true, RecursiveReadOnly: &enabled},
	}
	modes := func(in Input) (out []string) {
		for _, m := range compute(t, in).ContainerStatuses[0].VolumeMounts {
			mode := "-"
			if m.RecursiveReadOnly != nil {
				mode = string(*m.RecursiveReadOnly)
			}
			out = append(out, m.Name+" "+mode)
		}
		return out
	}
	require.Equal(t, []string{"rw -", "ro Disabled", "off Disabled", "try Enabled", "on Enabled"},
		modes(Input{Pod: pod, Observed: observe(running("c")), RecursiveReadOnly: true}))
	require.Equal(t, []string{"rw -", "ro Disabled", "off Disabled", "try Disabled", "on Disabled"}, modes(Input{Pod: pod}))
	without := Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Observed: observe(running("c"))}
	require.Nil(t, compute(t, without).ContainerStatuses[0].VolumeMounts, "as in a status that was read back")
}

func TestUserAndStopSignal(t *testing.T) {
	in := Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Observed: observe(running("c", func(c *pleg.ContainerStatus) {
		c.User, c.StopSignal = &pleg.ContainerUser{UID: 1, GID: 2, SupplementalGroups: []int64{3}}, "SIGTERM"
	}))}
	c := compute(t, in).ContainerStatuses[0]
	require.Equal(t, &v1.LinuxContainerUser{UID: 1, GID: 2, SupplementalGroups: []int64{3}}, c.User.Linux)
	require.Nil(t, c.StopSignal)
	in.StopSignals = true
	require.Equal(t, v1.SIGTERM, *compute(t, in).ContainerStatuses[0].StopSignal)
	in.Observed = observe(running("c"))
	require.Nil(t, compute(t, in).ContainerStatuses[0].StopSignal, "the runtime tells none")
}

// What takes a pod with something observed of a pod refuses another one's.
func TestInputIsChecked(t *testing.T) {
	require.PanicsWithValue(t, "status: Input.Pod is required", func() { Compute(Input{}) })
	in := steady()
	require.NotPanics(t, func() { Compute(in) })
	in.Pod = in.Pod.DeepCopy()
	in.Pod.UID = "mine"
	in.Observed = &pleg.PodStatus{UID: "other"}
	require.PanicsWithValue(t, `status: Input.Observed is of the pod with the UID "other", Input.Pod is "mine"`, func() { Compute(in) })
}

// Without a time it is now.
func TestNowIsTheDefault(t *testing.T) {
	in := steady()
	in.Previous, in.API, in.Now = &v1.PodStatus{}, &v1.PodStatus{}, time.Time{}
	before := time.Now().Add(-time.Second)
	s := Compute(in).Status
	require.True(t, s.StartTime.After(before))
	require.NotEmpty(t, s.Conditions)
	for _, c := range s.Conditions {
		require.True(t, c.LastTransitionTime.After(before.Truncate(time.Second).Add(-time.Second)), c.Type)
	}
}
