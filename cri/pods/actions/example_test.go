package actions_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/pleg/observed"
)

// ExampleCompute follows a job with an init container and a sidecar from its start to its end.
func ExampleCompute() {
	sidecar := v1.ContainerRestartPolicyAlways
	pod := &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyNever,
		InitContainers: []v1.Container{
			{Name: "fetch", Image: "busybox"},
			{Name: "proxy", Image: "busybox", RestartPolicy: &sidecar},
		},
		Containers: []v1.Container{{Name: "job", Image: "busybox"}},
	}}
	status := &observed.Pod{}
	decide := func() {
		a, _ := actions.Compute(actions.Input{Pod: pod, Status: status})
		fmt.Println(a)
	}
	observe := func(name string, state observed.State) {
		status.Containers = append([]observed.Container{{Name: name, SandboxID: "1", State: state}}, status.Containers...)
	}
	decide()
	status.Sandboxes = []observed.Sandbox{{ID: "1", State: observed.SandboxReady}}
	observe("fetch", observed.StateRunning)
	decide()
	status.Containers[0].State = observed.StateExited
	decide()
	observe("proxy", observed.StateRunning)
	decide()
	observe("job", observed.StateRunning)
	decide()
	status.Containers[0].State = observed.StateExited
	decide()
	// Output:
	// killPod createSandbox attempt=0 startInit=[0] (init container fetch runs first)
	// nothing (init container fetch is running)
	// startInit=[1] (init container proxy runs first)
	// startRegular=[0]
	// nothing
	// killPod (no container runs or may restart)
}

// ExampleRestartAllTriggered restarts all containers of a pod because of the exit code of one.
// The triggering container is reset last, so that an agent that dies in between detects the
// trigger again.
func ExampleRestartAllTriggered() {
	never := v1.ContainerRestartPolicyNever
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web"}, {Name: "watchdog", RestartPolicy: &never, RestartPolicyRules: []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}}}}}
	status := &observed.Pod{
		Sandboxes: []observed.Sandbox{{ID: "1", State: observed.SandboxReady}},
		Containers: []observed.Container{
			{Name: "watchdog", SandboxID: "1", State: observed.StateExited, ExitCode: 42},
			{Name: "web", SandboxID: "1", State: observed.StateRunning},
		},
	}
	all := actions.RestartAllTriggered(pod, status, nil)
	a, _ := actions.Compute(actions.Input{Pod: pod, Status: status, RestartAll: all})
	fmt.Println(a)
	// Output: reset=[web watchdog] (all containers are restarted)
}
