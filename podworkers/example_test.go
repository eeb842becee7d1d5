package podworkers_test

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// lamp is a syncer without a container runtime: each pod is a lamp that is switched on.
type lamp struct {
	mu sync.Mutex
	on map[types.UID]bool
}

func (l *lamp) SyncPod(_ context.Context, w podworkers.Work) (terminal bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.on[w.Pod.UID] { // a call may be repeated
		fmt.Println("on: ", w.Pod.Name)
		l.on[w.Pod.UID] = true
	}
	return false, nil
}

func (l *lamp) SyncTerminatingPod(ctx context.Context, w podworkers.Work) error {
	podworkers.SetStep(ctx, "dimming")
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Printf("off: %s within %d s\n", w.Pod.Name, w.GracePeriodSeconds)
	delete(l.on, w.Pod.UID)
	return nil
}

func (l *lamp) SyncTerminatedPod(_ context.Context, w podworkers.Work) error {
	fmt.Println("unplugged:", w.Pod.Name)
	return nil
}

// A syncer without containers shows the life of a pod.
func Example() {
	changes := make(chan podworkers.Transition, 10)
	workers, err := podworkers.New(podworkers.Config{
		Syncer:       &lamp{on: map[types.UID]bool{}},
		OnTransition: func(t podworkers.Transition) { changes <- t },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- workers.Run(ctx) }()

	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1", Name: "desk", Namespace: "office"}}
	if err := workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod}); err != nil {
		fmt.Println(err)
	}
	for (<-changes).To != podworkers.StateSyncing {
	}

	grace := int64(5)
	if err := workers.Kill(ctx, pod, podworkers.KillOptions{GracePeriodSeconds: &grace}); err != nil {
		fmt.Println(err)
	}
	for (<-changes).To != podworkers.StateFinished {
	}
	workers.SyncKnownPods(nil) // no longer desired: forget it
	fmt.Println("known:", len(workers.Pods()))

	stop()
	fmt.Println(<-stopped)
	// Output:
	// on:  desk
	// off: desk within 5 s
	// unplugged: desk
	// known: 0
	// <nil>
}
