package status_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
)

func ExampleManager() {
	sink := statustest.NewSink() // stands for an API server
	pod := sink.Put(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}})

	written := make(chan struct{}, 2)
	m, err := status.NewManager(status.ManagerConfig{
		Sink:    sink,
		Metrics: status.ManagerMetrics{Call: func(string, time.Duration, error) { written <- struct{}{} }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()

	m.Set(pod, v1.PodStatus{Phase: v1.PodRunning})
	fmt.Println("here:", m.Get(pod.UID).Phase)
	<-written // what the sink had before
	<-written
	fmt.Println("there:", sink.Pod(pod.Namespace, pod.Name).Status.Phase)

	stop()
	fmt.Println(<-ended)
	// Output:
	// here: Running
	// there: Running
	// <nil>
}

func ExampleApply() {
	// What a sink does that keeps statuses as a whole.
	current := &v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{Type: "example.com/gate", Status: v1.ConditionTrue}}}
	old := &v1.PodStatus{Phase: v1.PodPending}
	new := &v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}
	for _, c := range status.Apply(current, old, new).Conditions {
		fmt.Println(c.Type, c.Status)
	}
	// Output:
	// example.com/gate True
	// Ready True
}
