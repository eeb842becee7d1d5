package status_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/status"
)

func ExampleCompute() {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "shop/web:1"}}}}
	app := observed.Container{ID: observed.ContainerID{Runtime: "fake", ID: "1"}, Name: "app", State: observed.StateRunning}
	seen := &observed.Pod{
		Sandboxes:  []observed.Sandbox{{ID: "s", State: observed.SandboxReady}},
		Containers: []observed.Container{app},
	}
	first, _ := status.Compute(status.Input{Pod: pod, Observed: seen, Now: time.Now()})
	fmt.Println(first.Status.Phase, first.Status.ContainerStatuses[0].Ready)

	// The container crashes and waits for its back-off.
	app.State, app.ExitCode = observed.StateExited, 2
	second, _ := status.Compute(status.Input{
		Pod:           pod,
		Observed:      &observed.Pod{Sandboxes: seen.Sandboxes, Containers: []observed.Container{app}},
		StartFailures: map[string]podwright.Reason{"app": {Reason: "CrashLoopBackOff"}},
		Previous:      &first.Status,
		Now:           time.Now(),
	})
	c := second.Status.ContainerStatuses[0]
	fmt.Println(second.Status.Phase, c.State.Waiting.Reason, c.LastTerminationState.Terminated.ExitCode)
	// Output:
	// Running true
	// Running CrashLoopBackOff 2
}

func ExamplePatched() {
	// A sink that stores whole statuses calls Apply.
	current := &v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{Type: "example.com/gate", Status: v1.ConditionTrue}}}
	old := &v1.PodStatus{Phase: v1.PodPending}
	new := &v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}
	for _, c := range status.Patched(current, old, new).Conditions {
		fmt.Println(c.Type, c.Status)
	}
	// Output:
	// example.com/gate True
	// Ready True
}
