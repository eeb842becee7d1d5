package writer_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/status/writer"
)

func ExampleWriter() {
	sink := statustest.NewSink() // stands for an API server
	pod := sink.Put(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}})

	written := make(chan struct{}, 2)
	m, err := writer.New(writer.Config{
		Sinks:   []writer.NamedSink{{Name: "api", Sink: sink}},
		Metrics: writer.Metrics{OnCall: func(string, string, time.Duration, error) { written <- struct{}{} }},
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
	<-written // the status at the sink before
	<-written
	fmt.Println("there:", sink.Pod(pod.Namespace, pod.Name).Status.Phase)

	stop()
	fmt.Println(<-ended)
	// Output:
	// here: Running
	// there: Running
	// <nil>
}

// A function receives each new status of a pod.
func ExampleWriter_sinkFunc() {
	statuses := make(chan string)
	w, err := writer.New(writer.Config{Sinks: []writer.NamedSink{{
		Name: "print",
		Sink: status.SinkFunc(func(_ context.Context, pod *v1.Pod, s *v1.PodStatus) error {
			statuses <- fmt.Sprint(pod.Name, " is ", s.Phase)
			return nil
		}),
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()

	w.Set(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}, v1.PodStatus{Phase: v1.PodRunning})
	fmt.Println(<-statuses)

	stop()
	fmt.Println(<-ended)
	// Output:
	// web is Running
	// <nil>
}

// topic publishes statuses, and the deletions of pods.
type topic struct{ status.SinkFunc }

func (topic) ReceiveDeletion(_ context.Context, pod *v1.Pod) error {
	fmt.Println(pod.Name, "is deleted")
	return nil
}

// A sink that implements status.DeletionReceiver receives the deletion of a pod after its last
// status.
func ExampleWriter_deletion() {
	w, err := writer.New(writer.Config{Sinks: []writer.NamedSink{{
		Name: "topic",
		Sink: topic{func(_ context.Context, pod *v1.Pod, s *v1.PodStatus) error {
			fmt.Println(pod.Name, "is", s.Phase)
			return nil
		}},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Set(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}, v1.PodStatus{Phase: v1.PodSucceeded})
	w.Prune(func(types.UID) bool { return false }) // the agent does so when no source names the pod

	ctx, stop := context.WithCancel(context.Background())
	stop()
	fmt.Println(w.Run(ctx)) // an ending Run delivers the rest
	// Output:
	// web is Succeeded
	// web is deleted
	// <nil>
}
