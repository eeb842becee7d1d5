package syncloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/podworkers"
)

// Cleaner is a housekeeping step of another part of the agent, such as probes, statuses,
// directories, mirror pods or cgroups.
type Cleaner struct {
	// Name identifies the step in logs and Status.
	Name string
	// Clean removes leftovers and returns quickly. If it fails or panics, the other steps still
	// run, and the next housekeeping retries. If it hangs, it blocks the Loop; CheckHealth then
	// fails and names it.
	Clean func(ctx context.Context, c *Cleanup) error
	// Prepare lists existing objects before the workers receive the desired pods. Objects of pods
	// that start later are not in this list, so Clean does not remove them as leftovers. If
	// Prepare fails, Clean is not called. Optional.
	Prepare func(ctx context.Context) error
}

// CleanerStatus is the result of the last run of a Cleaner.
type CleanerStatus struct {
	Name string
	At   time.Time
	Took time.Duration
	Err  error
}

// Cleanup is the input of the cleaners in one housekeeping. It is valid during the call. Its pods
// must not be changed.
type Cleanup struct {
	// Pods are the desired pods. Mirrors are the mirror pods.
	Pods, Mirrors []*v1.Pod
	// LeftoverMirrors are the mirror pods to delete: those without a static pod, unless the static
	// pod is still terminating.
	LeftoverMirrors []*v1.Pod
	// Known are the pods that have a worker.
	Known map[types.UID]podworkers.KnownPod

	desired *Desired
	list    func(context.Context) ([]podworkers.RuntimePod, error)
	listed  bool
	runtime []podworkers.RuntimePod
	listErr error
}

// Running reports whether a pod should be running.
func (c *Cleanup) Running(uid types.UID) bool {
	known, ok := c.Known[uid]
	return ok && known.State == podworkers.StateSyncing
}

// PossiblyRunning reports whether a pod may have running containers: it should run, or it is
// terminating.
func (c *Cleanup) PossiblyRunning(uid types.UID) bool {
	known, ok := c.Known[uid]
	return ok && known.State != podworkers.StateTerminated
}

// Desired reports whether uid is a desired pod or a mirror pod.
func (c *Cleanup) Desired(uid types.UID) bool {
	return c.desired.has(uid)
}

// PodKind classifies pods with a worker for metrics.
type PodKind struct {
	// State is podworkers.StateSyncing, StateTerminating or StateTerminated.
	State podworkers.State
	// Config is "desired", "orphan" for pods that are no longer desired, or "runtime_only" for
	// pods that only the runtime lists.
	Config string
	Static bool
}

// Working counts the pods that have a worker by kind.
func (c *Cleanup) Working() map[PodKind]int {
	counts := map[PodKind]int{}
	for _, known := range c.Known {
		kind := PodKind{State: known.State, Config: "desired", Static: known.Static}
		switch {
		case !known.HasConfig:
			kind.Config = "runtime_only"
		case known.Undesired:
			kind.Config = "orphan"
		}
		counts[kind]++
	}
	return counts
}

// RuntimePods returns the pods of the runtime, listed after the workers received the desired pods.
// The first call of a housekeeping lists them, and later calls return the same result.
func (c *Cleanup) RuntimePods(ctx context.Context) ([]podworkers.RuntimePod, error) {
	if !c.listed {
		c.listed = true
		if c.runtime, c.listErr = c.list(ctx); c.listErr != nil {
			c.listErr = fmt.Errorf("list the pods of the runtime: %w", c.listErr)
		}
	}
	return c.runtime, c.listErr
}

// HandlePodCleanups runs one housekeeping: Prepare of all cleaners, SyncKnownPods, Cleaners,
// restarts, killing of leftovers, FinalCleaners, and Allocator.Retry. A failed step does not stop
// the next ones, but after failed restarts no leftovers are killed. The errors are joined.
//
// Until all sources are ready it only retries the admission of waiting pods and, with PerSource,
// restarts pods of ready sources and kills pods of RuntimePods that such a source no longer has.
func (h *DefaultHandler) HandlePodCleanups(ctx context.Context) error {
	if !h.cfg.Sources.Ready() {
		h.admitWaiting()
		var err error
		if h.cfg.PerSource {
			h.restartFinished()
			err = h.killRemoved(ctx)
		}
		h.forgetLeaving(func(uid types.UID) bool {
			state := h.cfg.Workers.State(uid).State
			return state == podworkers.StateUnknown || state == podworkers.StateFinished
		})
		return err
	}
	r := &cleaning{ctx: ctx, unprepared: map[string]error{}}
	r.prepare(slices.Concat(h.cfg.Cleaners, h.cfg.FinalCleaners))
	c := h.newCleanup()
	h.forgetLeaving(func(uid types.UID) bool { _, known := c.Known[uid]; return !known })
	r.clean(c, h.cfg.Cleaners)
	// Without the restarts the set of leftovers is unknown.
	if r.run("restarting pods", func() error { h.restartMissing(c); return nil }) == nil {
		_ = r.run("killing leftovers", func() error { return h.killLeftovers(ctx, c) })
	}
	r.clean(c, h.cfg.FinalCleaners)
	_ = r.run("allocating resources", func() error { h.allocate(RetryPeriodic, nil); return nil })
	h.locked(func() { h.cleaned = r.statuses })
	return errors.Join(r.errs...)
}

// CleanerStatuses returns the results of the cleaners in the last housekeeping.
func (h *DefaultHandler) CleanerStatuses() []CleanerStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.cleaned)
}

// newCleanup passes the desired pods to the workers and collects the input of the cleaners.
func (h *DefaultHandler) newCleanup() *Cleanup {
	c := &Cleanup{
		Pods:            h.desired.Pods(),
		Mirrors:         h.desired.Mirrors(),
		LeftoverMirrors: h.desired.LeftoverMirrors(),
		desired:         h.desired,
		list:            h.cfg.RuntimePods,
	}
	c.Known = h.cfg.Workers.SyncKnownPods(c.Pods)
	c.LeftoverMirrors = slices.DeleteFunc(c.LeftoverMirrors, func(mirror *v1.Pod) bool {
		return h.cfg.Workers.MirrorTerminating(podfacts.FullName(mirror))
	})
	return c
}

// forgetLeaving drops the pods in leaving for which ended returns true.
func (h *DefaultHandler) forgetLeaving(ended func(types.UID) bool) {
	for _, pod := range h.leavingPods() {
		if ended(pod.UID) {
			h.locked(func() { delete(h.leaving, pod.UID) })
		}
	}
}

// cleaning runs the steps of a housekeeping. A failed step does not stop the next one.
type cleaning struct {
	ctx        context.Context
	unprepared map[string]error
	statuses   []CleanerStatus
	errs       []error
}

func (r *cleaning) run(name string, step func() error) error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	SetStep(r.ctx, name)
	err := run.Guard(name, step)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return err
}

func (r *cleaning) prepare(cleaners []Cleaner) {
	for _, c := range cleaners {
		if c.Prepare == nil {
			continue
		}
		err := r.run("preparing "+c.Name, func() error { return withName(c.Name, c.Prepare(r.ctx)) })
		if err != nil {
			r.unprepared[c.Name] = err
		}
	}
}

func (r *cleaning) clean(cleanup *Cleanup, cleaners []Cleaner) {
	for _, c := range cleaners {
		if r.ctx.Err() != nil {
			return
		}
		status := CleanerStatus{Name: c.Name, At: time.Now(), Err: r.unprepared[c.Name]}
		if status.Err == nil {
			status.Err = r.run(c.Name, func() error { return withName(c.Name, c.Clean(r.ctx, cleanup)) })
			status.Took = time.Since(status.At)
		}
		r.statuses = append(r.statuses, status)
	}
}

func withName(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// restartMissing creates workers for desired pods without one: pods whose UID was reused while the
// predecessor ended, and pods that wait for admission. It runs before killLeftovers, so that restarted
// pods are not killed.
func (h *DefaultHandler) restartMissing(c *Cleanup) {
	var missing []*v1.Pod
	waiting := map[types.UID]bool{}
	for _, pod := range c.Pods {
		if _, known := c.Known[pod.UID]; known || h.ended(pod) {
			continue
		}
		if refusal, refused := h.refusalOf(pod.UID); !refused || !refusal.rejected {
			missing = append(missing, pod)
			waiting[pod.UID] = refused
		}
	}
	missing, b := h.newBatch(missing)
	for _, pod := range missing {
		if h.admit(pod, b) && h.update(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod}) {
			c.Known[pod.UID] = podworkers.KnownPod{State: podworkers.StateSyncing, HasConfig: true, Static: podfacts.IsStatic(pod)}
			if !waiting[pod.UID] && !h.uncreated[pod.UID] {
				h.cfg.OnRestart(pod)
			}
			delete(h.uncreated, pod.UID)
		}
	}
}

// killLeftovers kills pods without a worker: deleted pods that ended before this process started,
// so that their deletion completes, and pods that only the runtime lists.
func (h *DefaultHandler) killLeftovers(ctx context.Context, c *Cleanup) error {
	inRuntime, err := c.RuntimePods(ctx)
	if err != nil {
		return err
	}
	running := make(map[types.UID]bool, len(inRuntime))
	for _, orphan := range inRuntime {
		running[orphan.UID] = true
	}
	for _, pod := range c.Pods {
		if _, known := c.Known[pod.UID]; known || running[pod.UID] || pod.DeletionTimestamp == nil || !h.ended(pod) {
			continue
		}
		if h.update(podworkers.Update{Type: podworkers.UpdateKill, Pod: pod}) {
			c.Known[pod.UID] = podworkers.KnownPod{State: podworkers.StateTerminating, HasConfig: true}
		}
	}
	var errs []error
	for _, orphan := range inRuntime {
		// A pod that waits for admission may have been running before the agent started.
		if _, known := c.Known[orphan.UID]; known || h.isWaiting(orphan.UID) {
			continue
		}
		if err := h.killOrphan(orphan); err != nil {
			errs = append(errs, err)
			continue
		}
		c.Known[orphan.UID] = podworkers.KnownPod{State: podworkers.StateTerminating}
	}
	return errors.Join(errs...)
}

// killRemoved kills pods that only the runtime lists and that came from a ready source: it removed
// them while no agent ran.
func (h *DefaultHandler) killRemoved(ctx context.Context) error {
	inRuntime, err := h.cfg.RuntimePods(ctx)
	if err != nil {
		return fmt.Errorf("list the pods of the runtime: %w", err)
	}
	var errs []error
	for _, orphan := range inRuntime {
		if orphan.Source == "" || !h.cfg.Sources.SourceReady(orphan.Source) || h.desired.has(orphan.UID) || h.cfg.Workers.State(orphan.UID).State != podworkers.StateUnknown {
			continue
		}
		errs = append(errs, h.killOrphan(orphan))
	}
	return errors.Join(errs...)
}

func (h *DefaultHandler) killOrphan(orphan podworkers.RuntimePod) error {
	h.cfg.Logger.Info("killing an orphaned pod of the runtime", "pod", orphan.Namespace+"/"+orphan.Name, "podUID", orphan.UID)
	grace := int64(1)
	u := podworkers.Update{Type: podworkers.UpdateKill, RuntimePod: &orphan, Kill: &podworkers.KillOptions{GracePeriodSeconds: &grace}}
	if !h.update(u) {
		return fmt.Errorf("kill orphaned pod %s/%s (%s): refused by the workers", orphan.Namespace, orphan.Name, orphan.UID)
	}
	return nil
}

// restartFinished restarts pods of ready sources whose predecessor with the same UID has finished.
func (h *DefaultHandler) restartFinished() {
	forgetter, ok := h.cfg.Workers.(interface{ Forget(types.UID) bool })
	if !ok {
		return
	}
	var restarting []*v1.Pod
	for _, pod := range h.desired.Pods() {
		state := h.cfg.Workers.State(pod.UID)
		if state.State == podworkers.StateFinished && state.RestartRequested && h.mayRemove(pod) && forgetter.Forget(pod.UID) {
			restarting = append(restarting, pod)
		}
	}
	restarting, b := h.newBatch(restarting)
	for _, pod := range restarting {
		if h.admit(pod, b) && h.update(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod}) {
			h.cfg.OnRestart(pod)
		}
	}
}

func checkCleaners(field string, cleaners []Cleaner) (err error) {
	for i, c := range cleaners {
		at := fmt.Sprintf("syncloop: HandlerConfig.%s[%d].", field, i)
		err = errors.Join(err, fields.Required(at+"Name", c.Name), fields.Required(at+"Clean", c.Clean))
	}
	return err
}
