package status_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/status"
)

func ExampleCompute() {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "shop/web:1"}}}}
	app := pleg.ContainerStatus{ID: pleg.ContainerID{Runtime: "fake", ID: "1"}, Name: "app", State: pleg.StateRunning}
	observed := &pleg.PodStatus{
		Sandboxes:  []pleg.Sandbox{{ID: "s", State: pleg.SandboxReady}},
		Containers: []pleg.ContainerStatus{app},
	}
	first := status.Compute(status.Input{Pod: pod, Observed: observed, Now: time.Now()})
	fmt.Println(first.Status.Phase, first.Status.ContainerStatuses[0].Ready)

	// The container crashes and is held back.
	app.State, app.ExitCode = pleg.StateExited, 2
	second := status.Compute(status.Input{
		Pod:           pod,
		Observed:      &pleg.PodStatus{Sandboxes: observed.Sandboxes, Containers: []pleg.ContainerStatus{app}},
		StartFailures: map[string]status.Reason{"app": {Reason: "CrashLoopBackOff"}},
		Previous:      &first.Status,
		Now:           time.Now(),
	})
	c := second.Status.ContainerStatuses[0]
	fmt.Println(second.Status.Phase, c.State.Waiting.Reason, c.LastTerminationState.Terminated.ExitCode)
	// Output:
	// Running true
	// Running CrashLoopBackOff 2
}

func ExampleFinalize() {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
	s := status.Compute(status.Input{Pod: pod, Observed: &pleg.PodStatus{}, Now: time.Now()}).Status
	final := status.Finalize(pod, s, time.Now())
	fmt.Println(s.Phase, "->", final.Phase, final.ContainerStatuses[0].State.Terminated.ExitCode)
	// Output: Pending -> Failed 137
}
