package syncloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/podworkers"
)

// Cleaner is one step of housekeeping that belongs to another part of the agent:
// probes, statuses, directories, mirror pods, cgroups.
type Cleaner struct {
	// Name is for logs and health.
	Name string
	// Clean removes what is left over and returns quickly. When it fails the
	// other steps still run, and the next housekeeping tries again.
	Clean func(ctx context.Context, c *Cleanup) error
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
	// OrphanMirrors are the mirror pods to delete: those without a static pod,
	// except where that one is still terminating.
	OrphanMirrors []*v1.Pod
	// Known are the pods that have a worker.
	Known map[types.UID]podworkers.KnownPod

	list    func(context.Context) ([]podworkers.Orphan, error)
	listed  bool
	runtime []podworkers.Orphan
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

// RuntimePods returns what the runtime has, looked up after the workers were told
// which pods are desired. The first call of a housekeeping asks the runtime.
func (c *Cleanup) RuntimePods(ctx context.Context) ([]podworkers.Orphan, error) {
	if !c.listed {
		c.listed = true
		if c.runtime, c.listErr = c.list(ctx); c.listErr != nil {
			c.listErr = fmt.Errorf("listing the pods of the runtime: %w", c.listErr)
		}
	}
	return c.runtime, c.listErr
}

// HandlePodCleanups is one housekeeping. It does nothing before all sources are
// ready, except, with PerSource, restart pods of those that are.
func (h *DefaultHandler) HandlePodCleanups(ctx context.Context) error {
	if !h.cfg.Sources.Ready() {
		if h.cfg.PerSource {
			h.restartFinished()
		}
		return nil
	}
	c := h.newCleanup()
	h.forgetLeft(c)
	statuses, errs := runCleaners(ctx, c, h.cfg.Cleaners)
	h.restartMissing(c)
	if err := h.killLeftovers(ctx, c); err != nil {
		errs = append(errs, err)
	}
	more, finalErrs := runCleaners(ctx, c, h.cfg.FinalCleaners)
	h.mu.Lock()
	h.cleaned = append(statuses, more...)
	h.mu.Unlock()
	return errors.Join(append(errs, finalErrs...)...)
}

// CleanerStatuses returns how the cleaners of the last housekeeping went.
func (h *DefaultHandler) CleanerStatuses() []CleanerStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.cleaned)
}

// newCleanup tells the workers which pods are desired and gathers what follows.
func (h *DefaultHandler) newCleanup() *Cleanup {
	list := h.cfg.RuntimePods
	if list == nil {
		list = func(context.Context) ([]podworkers.Orphan, error) { return nil, nil }
	}
	c := &Cleanup{
		Pods:          h.desired.Pods(),
		Mirrors:       h.desired.Mirrors(),
		OrphanMirrors: h.desired.OrphanMirrors(),
		list:          list,
	}
	c.Known = h.cfg.Workers.SyncKnownPods(c.Pods)
	c.OrphanMirrors = slices.DeleteFunc(c.OrphanMirrors, func(mirror *v1.Pod) bool {
		return h.cfg.Workers.MirrorTerminating(podfacts.FullName(mirror))
	})
	return c
}

// forgetLeft drops the pods that left and that no worker knows any more.
func (h *DefaultHandler) forgetLeft(c *Cleanup) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid := range h.leaving {
		if _, ok := c.Known[uid]; !ok {
			delete(h.leaving, uid)
		}
	}
}

// runCleaners runs all cleaners, whatever becomes of each.
func runCleaners(ctx context.Context, c *Cleanup, cleaners []Cleaner) ([]CleanerStatus, []error) {
	var statuses []CleanerStatus
	var errs []error
	for _, cleaner := range cleaners {
		if ctx.Err() != nil {
			break
		}
		status := CleanerStatus{Name: cleaner.Name, At: time.Now()}
		if status.Err = cleaner.Clean(ctx, c); status.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cleaner.Name, status.Err))
		}
		status.Took = time.Since(status.At)
		statuses = append(statuses, status)
	}
	return statuses, errs
}

// restartMissing gives desired pods without a worker a new one: their UID was
// used again while the predecessor was ending. It comes before leftovers are
// killed, so that a restarted pod is none.
func (h *DefaultHandler) restartMissing(c *Cleanup) {
	for _, pod := range c.Pods {
		if _, known := c.Known[pod.UID]; known || !h.isActive(pod) || !h.admit(pod) {
			continue
		}
		if h.update(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod}) {
			c.Known[pod.UID] = podworkers.KnownPod{State: podworkers.StateSyncing, HasConfig: true, Static: podfacts.IsStatic(pod)}
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
		ended := podfacts.IsTerminalPhase(pod.Status.Phase) || podfacts.IsTerminalPhase(h.cfg.Phase(pod))
		if _, known := c.Known[pod.UID]; known || running[pod.UID] || pod.DeletionTimestamp == nil || !ended {
			continue
		}
		h.kill(c, podworkers.Update{Type: podworkers.UpdateKill, Pod: pod}, pod.UID)
	}
	var errs []error
	for _, orphan := range inRuntime {
		if _, known := c.Known[orphan.UID]; known {
			continue
		}
		h.cfg.Logger.Info("killing a pod that only the runtime knows", "namespace", orphan.Namespace, "pod", orphan.Name, "uid", orphan.UID)
		grace := int64(1)
		u := podworkers.Update{Type: podworkers.UpdateKill, Orphan: &orphan, Kill: &podworkers.KillOptions{GracePeriodSeconds: &grace}}
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
	for _, pod := range h.desired.Pods() {
		state := h.cfg.Workers.State(pod.UID)
		if state.State != podworkers.StateFinished || !state.RestartRequested || !h.mayRemove(pod) || !forgetter.Forget(pod.UID) {
			continue
		}
		if h.admit(pod) {
			h.update(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod})
		}
	}
}
