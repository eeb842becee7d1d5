package observed_test

import (
	"fmt"

	"github.com/podwright/podwright/pleg/observed"
)

// A pod whose sandbox has ended needs a new one, with the next attempt number.
func ExamplePod_SandboxChanged() {
	pod := observed.Pod{
		UID:        "u1",
		Sandboxes:  []observed.Sandbox{{ID: "s1", State: observed.SandboxReady, IPs: []string{"10.0.0.5"}}},
		Containers: []observed.Container{{Name: "web", SandboxID: "s1", State: observed.StateRunning}},
	}
	fmt.Println(pod.Newest("web").State, pod.Stopped(), pod.SandboxChanged(false).Changed)

	pod.Sandboxes[0].State = observed.SandboxNotReady
	pod.Containers[0].State = observed.StateExited
	change := pod.SandboxChanged(false)
	fmt.Println(pod.Newest("web").State, pod.Stopped(), change.Changed, change.Attempt)
	// Output:
	// running false false
	// exited true true 1
}
