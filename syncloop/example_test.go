package syncloop_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// An agent in small: pods come from a channel, the syncer prints, and when the
// pod has gone the agent stops.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	started := make(chan struct{})
	workers, err := podworkers.New(podworkers.Config{Syncer: podworkers.SyncerFuncs{
		Sync: func(_ context.Context, w podworkers.Work) (bool, error) {
			fmt.Println("run", w.Pod.Name)
			close(started)
			return false, nil
		},
		Terminating: func(_ context.Context, w podworkers.Work) error {
			fmt.Println("stop", w.Pod.Name)
			return nil
		},
		Terminated: func(_ context.Context, w podworkers.Work) error {
			fmt.Println("clean up", w.Pod.Name)
			stop()
			return nil
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	merger, _ := podsource.NewMerger(podsource.MergerConfig{})
	sets := make(chan []*v1.Pod)
	mine, _ := podsource.FromChannel(merger, "mine", sets)
	handler, _ := syncloop.NewHandler(syncloop.HandlerConfig{Workers: workers, Sources: merger})
	loop, _ := syncloop.New(syncloop.Config{
		Handler: handler,
		Pods:    merger,
		Sources: map[string]syncloop.EventSource{"mine": mine},
	})

	done := make(chan error, 2)
	go func() { done <- workers.Run(ctx) }()
	go func() { done <- loop.Run(ctx) }()
	sets <- []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"}}}
	<-started
	sets <- nil
	fmt.Println(<-done, <-done)
	// Output:
	// run web
	// stop web
	// clean up web
	// <nil> <nil>
}
