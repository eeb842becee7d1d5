package podworkerstest_test

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podworkerstest"
)

// kettle is a syncer whose pods are kettles.
type kettle struct{ boils chan struct{} }

func (k kettle) SyncPod(_ context.Context, w podworkers.Work) (terminal bool, err error) {
	w.Pod.Status.Phase = v1.PodRunning // a mistake: the pod is shared
	close(k.boils)
	return false, nil
}

func (k kettle) SyncTerminatingPod(context.Context, podworkers.Work) error { return nil }

func (k kettle) SyncTerminatedPod(context.Context, podworkers.Work) error { return nil }

// A Recorder finds the mistake of a syncer. Real tests run in a synctest bubble.
func Example() {
	syncer := kettle{boils: make(chan struct{})}
	cfg := podworkers.Config{Syncer: syncer}
	rec := podworkerstest.Record(&cfg)
	workers, err := podworkers.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- workers.Run(ctx) }()

	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1", Name: "earl-grey", Namespace: "kitchen"}}
	if err := workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod}); err != nil {
		fmt.Println(err)
	}
	<-syncer.boils
	if err := workers.Kill(ctx, pod, podworkers.KillOptions{}); err != nil {
		fmt.Println(err)
	}
	stop()
	if err := <-ran; err != nil {
		fmt.Println(err)
	}

	fmt.Println(rec.Calls("1"))
	var found podworkerstest.Violation
	errors.As(rec.Check(nil), &found)
	fmt.Println(found)
	// Output:
	// [SyncPod SyncTerminatingPod SyncTerminatedPod]
	// pod kitchen/earl-grey (1): the pod was changed, detected after SyncPod [INV-20: pods of updates are not changed]
}
