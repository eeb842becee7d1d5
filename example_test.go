package podwright_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/podworkers"
)

// A lamp is a pod for a strange kind of node: no containers, no cluster.
type lamp struct{ lit chan string }

func (l lamp) SyncPod(_ context.Context, w podworkers.Work) (terminal bool, err error) {
	fmt.Println("on:", w.Pod.Name)
	l.lit <- w.Pod.Name
	return false, nil
}

func (l lamp) SyncTerminatingPod(_ context.Context, w podworkers.Work) error {
	fmt.Printf("off: %s, within %d s\n", w.Pod.Name, w.GracePeriodSeconds)
	return nil
}

func (l lamp) SyncTerminatedPod(context.Context, podworkers.Work) error { return nil }

func Example() {
	l := lamp{lit: make(chan string, 1)}
	workers, err := podworkers.New(podworkers.Config{Syncer: l})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- workers.Run(ctx) }()

	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1", Name: "desk", Namespace: "office"}}
	fmt.Println(workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod}))
	<-l.lit
	fmt.Println(workers.Kill(ctx, pod, podworkers.KillOptions{})) // returns when it is off
	stop()
	fmt.Println(<-done)
	// Unordered output:
	// <nil>
	// on: desk
	// off: desk, within 1 s
	// <nil>
	// <nil>
}
