package podwright_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/podworkers"
)

// lamp is a PodSyncer without containers. It sends a line for each call.
type lamp chan string

func (l lamp) SyncPod(_ context.Context, w podworkers.Work) (terminal bool, err error) {
	l <- w.Pod.Name + " is on"
	return false, nil
}

func (l lamp) SyncTerminatingPod(_ context.Context, w podworkers.Work) error {
	l <- fmt.Sprintf("%s is off, grace period %d s", w.Pod.Name, w.GracePeriodSeconds)
	return nil
}

func (l lamp) SyncTerminatedPod(context.Context, podworkers.Work) error { return nil }

func Example() {
	l := make(lamp, 1)
	workers, err := podworkers.New(podworkers.Config{Syncer: l})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- workers.Run(ctx) }()

	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1", Name: "desk", Namespace: "office"}}
	fmt.Println(workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod}), <-l)
	fmt.Println(workers.Kill(ctx, pod, podworkers.KillOptions{}), <-l)
	stop()
	fmt.Println(<-ended)
	// Output:
	// <nil> desk is on
	// <nil> desk is off, grace period 1 s
	// <nil>
}
