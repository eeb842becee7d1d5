package vmfleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// Config configures an Agent. Hypervisor, Pods and Sink are required.
type Config struct {
	Hypervisor *Hypervisor
	// Pods delivers the desired pods: each slice is the complete set.
	Pods <-chan []*v1.Pod
	// Sink receives the newest status of each pod. A status.DeletionReceiver also gets its deletion.
	Sink status.Sink
	// Saved returns the last status of a pod from an earlier agent, or nil. Optional.
	Saved func(types.UID) *v1.PodStatus
	// Logger receives log records. Optional: without it they are discarded.
	Logger *slog.Logger
}

// Agent runs pods as virtual machines. It implements podworkers.PodSyncer.
type Agent struct {
	Config
	pleg     *pleg.PLEG
	statuses *writer.Writer
	workers  *podworkers.Workers
	loop     *syncloop.Loop
}

// New returns an Agent. Run starts it.
func New(cfg Config) (a *Agent, err error) {
	a = &Agent{Config: cfg}
	if a.pleg, err = pleg.New(pleg.Config{Runtime: cfg.Hypervisor, OnEvent: func(e pleg.Event) { a.dirty(e.UID) }}); err != nil {
		return nil, err
	}
	if a.statuses, err = writer.New(writer.Config{Sinks: []writer.NamedSink{{Name: "fleet", Sink: cfg.Sink}}, Logger: cfg.Logger}); err != nil {
		return nil, err
	}
	if a.workers, err = podworkers.New(podworkers.Config{Syncer: a, OnDue: a.dirty, RetryBackoff: 20 * time.Second, Logger: cfg.Logger}); err != nil {
		return nil, err
	}
	merger, err := podsource.NewMerger(podsource.MergerConfig{Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	pods, err := podsource.FromChannel(merger, "fleet", cfg.Pods)
	if err != nil {
		return nil, err
	}
	handler, err := syncloop.NewHandler(syncloop.HandlerConfig{
		Workers: a.workers, Sources: merger, RuntimePods: a.machines, Logger: cfg.Logger,
		FinalCleaners: []syncloop.Cleaner{{Name: "machines", Clean: a.clean}},
	})
	if err != nil {
		return nil, err
	}
	a.loop, err = syncloop.New(syncloop.Config{
		Handler: handler, Pods: merger, Health: a.pleg.Healthy, Logger: cfg.Logger,
		Sources: map[string]syncloop.EventSource{"fleet": pods},
	})
	return a, err
}

// Run runs the agent until ctx is done. The machines continue to run. Run may be called once.
func (a *Agent) Run(ctx context.Context) error {
	parts, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{a.pleg.Run, a.statuses.Run, a.workers.Run, a.loop.Run} {
		parts.Go(func() error { return run(ctx) })
	}
	return parts.Wait()
}

// SyncPod boots the machine of a pod, also after an unexpected stop.
func (a *Agent) SyncPod(ctx context.Context, w podworkers.Work) (terminal bool, err error) {
	if len(w.Pod.Spec.Containers) != 1 {
		return false, errors.New("spec.containers: exactly one is required")
	}
	observed, err := a.pleg.Observe(ctx, w.Pod.UID, w.ActedAt)
	if err != nil {
		return false, err
	}
	reason, next := backOff(observed)
	switch phase, err := a.setStatus(w, observed, reason, false); {
	case err != nil:
		return false, err
	case phase == v1.PodSucceeded || phase == v1.PodFailed:
		return true, nil
	case running(observed):
		return false, nil
	case reason != nil:
		return false, podworkers.RetryAt(errors.New(reason.Message), next)
	}
	if err := a.Hypervisor.Boot(ctx, w.Pod); err != nil {
		_, statusErr := a.setStatus(w, observed, &podwright.Reason{Reason: "BootFailed", Message: err.Error()}, false)
		return false, errors.Join(err, statusErr)
	}
	if observed, err = a.pleg.Observe(ctx, w.Pod.UID, time.Now()); err == nil {
		_, err = a.setStatus(w, observed, nil, false)
	}
	return false, err
}

// SyncTerminatingPod shuts down the machine of a pod.
func (a *Agent) SyncTerminatingPod(ctx context.Context, w podworkers.Work) error {
	if err := a.Hypervisor.Shutdown(ctx, w.Pod.UID, time.Duration(w.GracePeriodSeconds)*time.Second); err != nil {
		return err
	}
	observed, err := a.pleg.Observe(ctx, w.Pod.UID, time.Now())
	if err == nil {
		_, err = a.setStatus(w, observed, nil, true)
	}
	return err
}

// SyncTerminatedPod publishes the last status of a pod.
func (a *Agent) SyncTerminatedPod(_ context.Context, w podworkers.Work) error {
	return a.statuses.Terminate(w.Pod)
}

// SyncTerminatingOrphan shuts down an orphaned machine. Its grace period is unknown.
func (a *Agent) SyncTerminatingOrphan(ctx context.Context, o podworkers.RuntimePod, _ time.Time) error {
	return a.Hypervisor.Shutdown(ctx, o.UID, 30*time.Second)
}

// backOff returns the back-off before the next boot of a stopped machine: 10 s after its end,
// doubled each time, up to 5 min. It depends only on the machine, so the next agent continues it.
func backOff(observed *observed.Pod) (*podwright.Reason, time.Time) {
	if len(observed.Containers) == 0 || running(observed) {
		return nil, time.Time{}
	}
	c := observed.Containers[0]
	pause := 10 * time.Second
	if c.FinishedAt.Sub(c.StartedAt) < 10*time.Minute {
		pause = min(pause<<min(c.RestartCount, 10), 5*time.Minute)
	}
	next := c.FinishedAt.Add(pause)
	if !time.Now().Before(next) {
		return nil, time.Time{}
	}
	return &podwright.Reason{Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off %s booting %s again, exit code %d", pause, c.Name, c.ExitCode)}, next
}

// setStatus computes the status of a pod and publishes it.
func (a *Agent) setStatus(w podworkers.Work, observed *observed.Pod, reason *podwright.Reason, terminal bool) (v1.PodPhase, error) {
	if a.Saved != nil && a.statuses.Get(w.Pod.UID) == nil {
		if saved := a.Saved(w.Pod.UID); saved != nil {
			a.statuses.Restore(w.Pod, *saved)
		}
	}
	in := status.Input{Pod: w.Pod, Observed: observed, Previous: a.statuses.Get(w.Pod.UID), Override: w.Status, Terminal: terminal, Now: time.Now()}
	if reason != nil {
		in.StartFailures = map[string]podwright.Reason{w.Pod.Spec.Containers[0].Name: *reason}
	}
	result, err := status.Compute(in)
	if err != nil {
		return "", err
	}
	return result.Status.Phase, a.statuses.Set(w.Pod, result.Status)
}

// machines returns the running machines.
func (a *Agent) machines(context.Context) (out []podworkers.RuntimePod, err error) {
	for _, p := range a.pleg.Pods() {
		if !p.Stopped() {
			out = append(out, podworkers.RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace})
		}
	}
	return out, a.pleg.Healthy()
}

// clean drops statuses and stopped machines of removed pods without a worker. The loop waits for it.
func (a *Agent) clean(_ context.Context, c *syncloop.Cleanup) error {
	kept := func(uid types.UID) bool { return c.Desired(uid) || !a.workers.State(uid).ShouldBeFinished() }
	a.statuses.Prune(kept)
	for _, p := range a.pleg.Pods() {
		if p.Stopped() && !kept(p.UID) {
			a.Hypervisor.Destroy(p.UID)
		}
	}
	return nil
}

func (a *Agent) dirty(uid types.UID) { a.loop.Emit(syncloop.Event{Kind: syncloop.PodDirty, UID: uid}) }
