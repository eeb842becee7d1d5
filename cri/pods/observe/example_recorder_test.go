package observe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/pleg/plegtest"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podworkerstest"
)

// node is a minimal PodSyncer on a CRI runtime. Its pods have one container.
type node struct {
	runtime *fake.Runtime
	id      string // container ID
	hasty   bool   // SyncTerminatingPod does not wait for the stop
}

func (n *node) SyncPod(ctx context.Context, w podworkers.Work) (terminal bool, err error) {
	pod := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: w.Pod.Name, Namespace: w.Pod.Namespace, Uid: string(w.Pod.UID)},
		Labels:   map[string]string{labels.PodName: w.Pod.Name, labels.PodNamespace: w.Pod.Namespace, labels.PodUID: string(w.Pod.UID)},
	}
	sandbox, err := n.runtime.RunPodSandbox(ctx, pod, "")
	if err != nil {
		return false, err
	}
	n.id, err = n.runtime.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "busybox"},
		Labels: map[string]string{
			labels.PodName: w.Pod.Name, labels.PodNamespace: w.Pod.Namespace, labels.PodUID: string(w.Pod.UID), labels.ContainerName: "app",
		},
	}, pod)
	return false, errors.Join(err, n.runtime.StartContainer(ctx, n.id))
}

func (n *node) SyncTerminatingPod(ctx context.Context, w podworkers.Work) error {
	if n.hasty {
		go func() {
			_ = n.runtime.StopContainer(context.WithoutCancel(ctx), n.id, time.Duration(w.GracePeriodSeconds)*time.Second)
		}()
		return nil
	}
	return n.runtime.StopContainer(ctx, n.id, time.Duration(w.GracePeriodSeconds)*time.Second)
}

func (n *node) SyncTerminatedPod(context.Context, podworkers.Work) error { return nil }

// saveFirst is a program that exits five seconds after a signal.
func saveFirst(ctx context.Context, p *fake.Process) int {
	select {
	case <-p.Signals():
		time.Sleep(5 * time.Second)
	case <-ctx.Done(): // killed
	}
	return 0
}

// Example_recorder combines a Recorder of podworkerstest with an Observer. The Recorder detects a
// syncer that reports a running container as stopped. In a real test, t is the test's own.
func Example_recorder() {
	t := new(testing.T)
	for _, hasty := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			runtime, _ := fake.New(fake.Config{AnyImage: true, Programs: fake.Always(saveFirst)})
			defer runtime.Close()
			observer, _ := observe.New(observe.Config{Runtime: runtime, RuntimeName: "fake", Owner: cri.Owner{Unlabelled: true}})

			syncer := &node{runtime: runtime, hasty: hasty}
			cfg := podworkers.Config{Syncer: syncer, ResyncInterval: time.Hour} // each pod starts only once
			rec := podworkerstest.Record(&cfg)
			rec.Running(plegtest.RunningIDs(t.Context(), observer))
			workers, _ := podworkers.New(cfg)
			ctx, stop := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- workers.Run(ctx) }()

			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1", Name: "web", Namespace: "shop"}}
			_ = workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod})
			time.Sleep(time.Minute)
			grace := int64(20)
			_ = workers.Kill(ctx, pod, podworkers.KillOptions{GracePeriodSeconds: &grace})
			time.Sleep(time.Minute)
			synctest.Wait()
			var found podworkerstest.Violation
			if err := rec.Check(workers); errors.As(err, &found) {
				fmt.Println(strings.ReplaceAll(found.Error(), syncer.id, "ID")) // random
			} else {
				fmt.Println("hasty:", hasty, "found:", err)
			}
			stop()
			if err := <-ran; err != nil {
				fmt.Println(err)
			}
		})
	}
	// Output:
	// hasty: false found: <nil>
	// pod shop/web (1): SyncTerminatingPod returned nil while containers still run: fake://ID; it must wait for them to stop [INV-8: Terminated means that the containers have stopped]
}
