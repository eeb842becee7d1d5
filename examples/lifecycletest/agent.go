package lifecycletest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

const source = "test"

// agent wires the parts together, from the runtime upwards. It computes no
// statuses and mounts no volumes: examples/kubelet/agent does.
type agent struct {
	runtime  *pods.Manager
	observer *pleg.PLEG
	workers  *podworkers.Workers
	desired  *podsource.Merger
	loop     *syncloop.Loop
}

func newAgent(runtime *pods.Manager) (*agent, error) {
	a := &agent{runtime: runtime}
	var errs [5]error
	a.observer, errs[0] = pleg.New(pleg.Config{
		Runtime: runtime,
		OnEvent: func(e pleg.Event) { a.loop.Emit(syncloop.Event{Kind: syncloop.PodDirty, UID: e.UID}) },
	})
	a.workers, errs[1] = podworkers.New(podworkers.Config{
		Syncer: podworkers.SyncerFuncs{Sync: a.sync, Terminating: a.terminate, Terminated: a.remove},
		Resync: func(uid types.UID) { a.loop.Emit(syncloop.Event{Kind: syncloop.SyncDue, UID: uid}) },
	})
	a.desired, errs[2] = podsource.NewMerger(podsource.MergerConfig{})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	handler, err := syncloop.NewHandler(syncloop.HandlerConfig{Workers: a.workers, Sources: a.desired})
	if err != nil {
		return nil, err
	}
	errs[3] = a.desired.Register(source)
	a.loop, errs[4] = syncloop.New(syncloop.Config{Handler: handler, Pods: a.desired, Health: a.observer.Healthy})
	return a, errors.Join(errs[:]...)
}

// run runs the parts until ctx ends.
func (a *agent) run(ctx context.Context) error {
	var wg sync.WaitGroup
	var errs [3]error
	for i, run := range []func(context.Context) error{a.observer.Run, a.workers.Run, a.loop.Run} {
		wg.Go(func() { errs[i] = run(ctx) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// set says which pods should be there.
func (a *agent) set(desired ...*v1.Pod) error { return a.desired.Set(source, desired) }

// sync begins with a look that is newer than what was last done to the pod, as
// the other two do.
func (a *agent) sync(ctx context.Context, w podworkers.Work) (terminal bool, err error) {
	status, err := a.observer.Observe(ctx, w.Pod.UID, w.ActedAt)
	if err != nil {
		return false, err
	}
	result := a.runtime.SyncPod(ctx, pods.SyncRequest{Pod: w.Pod, Status: status})
	return false, result.Err()
}

func (a *agent) terminate(ctx context.Context, w podworkers.Work) error {
	status, err := a.observer.Observe(ctx, w.Pod.UID, w.ActedAt)
	if err != nil {
		return err
	}
	result := a.runtime.KillPod(ctx, pods.KillRequest{Pod: w.Pod, Status: status, GraceSeconds: &w.GracePeriodSeconds})
	return result.Err()
}

func (a *agent) remove(ctx context.Context, w podworkers.Work) error {
	status, err := a.observer.Observe(ctx, w.Pod.UID, w.ActedAt)
	if err != nil {
		return err
	}
	if err := a.runtime.RemovePod(ctx, w.Pod.UID, status); err != nil {
		return fmt.Errorf("pod %s: %w", w.Pod.Name, err)
	}
	return nil
}
