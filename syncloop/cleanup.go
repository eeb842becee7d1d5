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

// Cleaner is one step of housekeeping that belongs to another part of the agent:
// probes, statuses, directories, mirror pods, cgroups.
type Cleaner struct {
	// Name is for logs and health.
	Name string
	// Clean removes what is left over and returns quickly. When it fails, or
	// panics, the other steps still run, and the next housekeeping tries again.
	// One that hangs holds up the Loop, whose CheckHealth fails and names it.
	Clean func(ctx context.Context, c *Cleanup) error
	// Prepare looks at what there is before the workers are told which pods are
	// desired: what is made for a pod after that is not in the list, so Clean
	// cannot take it for a leftover. If it fails Clean is not called. May be nil.
	Prepare func(ctx context.Context) error
}

// CleanerStatus is how the last run of a Cleaner went.
type CleanerStatus struct {
	Name string
	At   time.Time
	Took time.Duration
	Err  error
}

// Cleanup is what the cleaners of one housekeeping go by. It is valid during the
// call; the pods in it must never be changed.
type Cleanup struct {
	// Pods are the desired pods, Mirrors the mirror pods.
	Pods, Mirrors []*v1.Pod
	// LeftoverMirrors are the mirror pods to delete: those without a static pod,
	// except where that one is still terminating.
	LeftoverMirrors []*v1.Pod
	// Known are the pods that have a worker.
	Known map[types.UID]podworkers.KnownPod

	desired *Desired
	list    func(context.Context) ([]podworkers.RuntimePod, error)
	listed  bool
	runtime []podworkers.RuntimePod
	listErr error
}

// Running tells whether a pod should be running.
func (c *Cleanup) Running(uid types.UID) bool {
	known, ok := c.Known[uid]
	return ok && known.State == podworkers.StateSyncing
}

// PossiblyRunning tells whether containers of a pod may be running: it should be,
// or it is terminating.
func (c *Cleanup) PossiblyRunning(uid types.UID) bool {
	known, ok := c.Known[uid]
	return ok && known.State != podworkers.StateTerminated
}

// Desired tells whether a UID is that of a desired pod or of a mirror pod.
func (c *Cleanup) Desired(uid types.UID) bool {
	return c.desired.has(uid)
}

// PodKind tells kinds of pods with a worker apart, for metrics.
type PodKind struct {
	// State is podworkers.StateSyncing, StateTerminating or StateTerminated.
	State podworkers.State
	// Config is "desired", "orphan" for pods that are not desired any more, or
	// "runtime_only" for those that only the runtime knows.
	Config string
	Static bool
}

// Working counts the pods that have a worker.
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

// RuntimePods returns what the runtime has, looked up after the workers were told
// which pods are desired. The first call of a housekeeping asks the runtime.
func (c *Cleanup) RuntimePods(ctx context.Context) ([]podworkers.RuntimePod, error) {
	if !c.listed {
		c.listed = true
		if c.runtime, c.listErr = c.list(ctx); c.listErr != nil {
			c.listErr = fmt.Errorf("listing the pods of the runtime: %w", c.listErr)
		}
	}
	return c.runtime, c.listErr
}

// HandlePodCleanups is one housekeeping: Prepare of all cleaners, SyncKnownPods,
// Cleaners, restarts, leftovers, FinalCleaners. What fails does not stop the rest.
//
// Before all sources are ready it only asks again about pods that were held back
// and, with PerSource, restarts pods of those sources that are ready.
func (h *DefaultHandler) HandlePodCleanups(ctx context.Context) error {
	if !h.cfg.Sources.Ready() {
		h.admitHeld()
		if h.cfg.PerSource {
			h.restartFinished()
		}
		h.forgetLeft(func(uid types.UID) bool {
			state := h.cfg.Workers.State(uid).State
			return state == podworkers.StateUnknown || state == podworkers.StateFinished
		})
		return nil
	}
	r := &cleaning{ctx: ctx, unprepared: map[string]error{}}
	r.prepare(slices.Concat(h.cfg.Cleaners, h.cfg.FinalCleaners))
	c := h.newCleanup()
	h.forgetLeft(func(uid types.UID) bool { _, known := c.Known[uid]; return !known })
	r.clean(c, h.cfg.Cleaners)
	// Without the restarts, what is left over is not known.
	if r.run("restarting pods", func() error { h.restartMissing(c); return nil }) == nil {
		_ = r.run("killing leftovers", func() error { return h.killLeftovers(ctx, c) })
	}
	r.clean(c, h.cfg.FinalCleaners)
	_ = r.run("allocating resources", func() error { h.allocate(RetryPeriodic, nil); return nil })
	h.locked(func() { h.cleaned = r.statuses })
	return errors.Join(r.errs...)
}

// CleanerStatuses returns how the cleaners of the last housekeeping went.
func (h *DefaultHandler) CleanerStatuses() []CleanerStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.cleaned)
}

// newCleanup tells the workers which pods are desired and gathers what follows.
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

// forgetLeft drops the pods that left and of which nothing more is to come.
func (h *DefaultHandler) forgetLeft(over func(types.UID) bool) {
	for _, pod := range h.left() {
		if over(pod.UID) {
			h.locked(func() { delete(h.leaving, pod.UID) })
		}
	}
}

// cleaning is the part of a housekeeping that is other people's. Whatever becomes
// of one step, the next one runs.
type cleaning struct {
	ctx        context.Context
	unprepared map[string]error
	statuses   []CleanerStatus
	errs       []error
}

// run makes one step, unless the agent stops.
func (r *cleaning) run(what string, step func() error) error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	SetStep(r.ctx, what)
	err := run.Guard(what, step)
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
		err := r.run("preparing "+c.Name, func() error { return named(c.Name, c.Prepare(r.ctx)) })
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
			status.Err = r.run(c.Name, func() error { return named(c.Name, c.Clean(r.ctx, cleanup)) })
			status.Took = time.Since(status.At)
		}
		r.statuses = append(r.statuses, status)
	}
}

func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// restartMissing gives desired pods without a worker a new one: their UID was
// used again while the predecessor was ending, or they were held back. It comes
// before leftovers are killed, so that a restarted pod is none.
func (h *DefaultHandler) restartMissing(c *Cleanup) {
	var missing []*v1.Pod
	held := map[types.UID]bool{}
	for _, pod := range c.Pods {
		if _, known := c.Known[pod.UID]; known || h.ended(pod) {
			continue
		}
		if why, refused := h.refusalOf(pod.UID); !refused || !why.rejected {
			missing = append(missing, pod)
			held[pod.UID] = refused
		}
	}
	missing, b := h.newBatch(missing)
	for _, pod := range missing {
		if h.admit(pod, b) && h.update(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod}) {
			c.Known[pod.UID] = podworkers.KnownPod{State: podworkers.StateSyncing, HasConfig: true, Static: podfacts.IsStatic(pod)}
			if !held[pod.UID] {
				h.cfg.OnRestart(pod)
			}
		}
	}
}

// killLeftovers ends what no worker knows: deleted pods that ended before this
// process, so that their deletion completes, and pods that only the runtime has.
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
		h.kill(c, podworkers.Update{Type: podworkers.UpdateKill, Pod: pod}, pod.UID)
	}
	var errs []error
	for _, orphan := range inRuntime {
		// A pod that is held back may have been running before the agent was.
		if _, known := c.Known[orphan.UID]; known || h.held(orphan.UID) {
			continue
		}
		h.cfg.Logger.Info("killing a pod that only the runtime knows", "pod", orphan.Namespace+"/"+orphan.Name, "podUID", orphan.UID)
		grace := int64(1)
		u := podworkers.Update{Type: podworkers.UpdateKill, RuntimePod: &orphan, Kill: &podworkers.KillOptions{GracePeriodSeconds: &grace}}
		if !h.kill(c, u, orphan.UID) {
			errs = append(errs, fmt.Errorf("pod %s/%s (%s) cannot be killed", orphan.Namespace, orphan.Name, orphan.UID))
		}
	}
	return errors.Join(errs...)
}

func (h *DefaultHandler) kill(c *Cleanup, u podworkers.Update, uid types.UID) bool {
	if !h.update(u) {
		return false
	}
	c.Known[uid] = podworkers.KnownPod{State: podworkers.StateTerminating, HasConfig: u.Pod != nil}
	return true
}

// restartFinished restarts pods whose predecessor with the same UID has finished,
// as far as their sources are ready.
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
