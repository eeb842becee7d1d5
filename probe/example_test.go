package probe_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
)

// A custom readiness probe: the container is ready while a file exists.
func Example() {
	file, err := os.CreateTemp("", "ready")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(file.Name())

	// In an agent, package status computes this.
	status := &v1.PodStatus{
		Phase: v1.PodRunning,
		ContainerStatuses: []v1.ContainerStatus{{
			Name: "web", ContainerID: "example://1", Started: new(true),
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}},
	}
	changes := make(chan probe.Change, 10)
	manager, err := probe.New(probe.Config{
		Probers: map[probe.Handler]probe.Prober{
			probe.Exec: probe.ProberFunc(func(_ context.Context, t probe.Target) (probe.Result, error) {
				if _, err := os.Stat(t.Probe.Exec.Command[0]); err != nil {
					return probe.Result{Verdict: probe.Failure, Output: "no file"}, nil
				}
				return probe.Result{Verdict: probe.Success}, nil
			}),
		},
		Status:   func(types.UID) *v1.PodStatus { return status },
		OnChange: func(c probe.Change) { changes <- c },
		Timing: func(*v1.Pod, *v1.Container, probe.Type) probe.Timing {
			return probe.Timing{Period: 20 * time.Millisecond}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- manager.Run(ctx) }()

	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "default", UID: "1234"},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "web",
			ReadinessProbe: &v1.Probe{
				ProbeHandler:     v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{file.Name()}}},
				FailureThreshold: 2,
			},
		}}},
	}
	if err := manager.AddPod(pod); err != nil { // on every sync
		log.Fatal(err)
	}
	until := func(v probe.Verdict) {
		for c := range changes {
			if c.Result == v {
				fmt.Println(c.Container, c.ContainerID, c.Type, c.Result)
				return
			}
		}
	}
	until(probe.Success)
	if err := os.Remove(file.Name()); err != nil {
		log.Fatal(err)
	}
	until(probe.Failure)
	w := manager.Workers(pod.UID)[0]
	fmt.Println(w.Handler, w.Period, w.Output)
	fmt.Println(manager.Explain(pod.UID)[0].Err)

	cancel()
	fmt.Println(<-done)
	// Output:
	// web example://1 Readiness Success
	// web example://1 Readiness Failure
	// exec 20ms no file
	// no file
	// <nil>
}

func ExampleValidate() {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{
		LivenessProbe: &v1.Probe{PeriodSeconds: -1},
	}}}}
	for _, err := range probe.Validate(pod) {
		fmt.Println(err)
	}
	// Output:
	// spec.containers[0].livenessProbe.periodSeconds: -1: must not be negative
	// spec.containers[0].livenessProbe: a handler is required: exec, httpGet, tcpSocket or grpc
}
