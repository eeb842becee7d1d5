package syncloop

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/podworkers"
)

// Workers is the part of the pod workers that the default handler uses. *podworkers.Workers
// implements it. It is safe for concurrent use, and no method blocks.
//
// Forget(types.UID) bool is an optional method. It drops a finished worker that has a requested
// restart. With it, pods of ready sources can restart under their old UID while other sources are
// not ready.
type Workers interface {
	UpdatePod(podworkers.Update) error
	SyncKnownPods(desired []*v1.Pod) map[types.UID]podworkers.KnownPod
	State(uid types.UID) podworkers.PodState
	MirrorTerminating(fullName string) bool
}

// SourceReadiness reports which sources of pods are ready. The Merger of package podsource
// implements it.
type SourceReadiness interface {
	Ready() bool
	SourceReady(source string) bool
}

// HandlerConfig configures a DefaultHandler. Only Workers is required.
type HandlerConfig struct {
	// Workers act on the pods. An update that they refuse is logged; housekeeping creates missing
	// workers later. Required.
	Workers Workers
	// Sources reports whether the desired pods are complete. Optional: without it they always are.
	Sources SourceReadiness
	// Desired is the index of the desired pods. Set it to share the index with parts that are
	// built before the handler. It belongs to one handler. Default: a new index.
	Desired *Desired
	// PerSource allows removing pods of a ready source, and restarting them under their old UID,
	// while other sources are not ready. That includes pods of RuntimePods with this Source. By
	// default it waits for all sources. Cleanup of objects without a source always waits for all.
	PerSource bool

	// Admit decides whether a new pod may start. Optional: without it every pod is admitted.
	Admit Admitter
	// OnReject is called after a pod was rejected. It records the failure as the pod's status and
	// as an event. The pod gets a worker only for its teardown after deletion. Optional.
	OnReject func(pod *v1.Pod, why Rejection)
	// OnRestart is called when a pod starts under the UID of a pod after that pod has ended. It must
	// not block. Optional.
	OnRestart func(pod *v1.Pod)
	// Allocator returns the allocated resources of pods. Workers and admission use these. Default:
	// the resources in the spec.
	Allocator Allocator
	// Order is the order of admission of pods that are new at the same time. Default: ByCreation.
	Order Order
	// Phase returns the newest phase of a pod, which may be newer than the pod's status. It is
	// called concurrently and must not block. Default: the phase in the status.
	Phase func(pod *v1.Pod) v1.PodPhase
	// Prune removes dead containers of a pod: all, or all except the newest. It must not block.
	// Optional.
	Prune func(ctx context.Context, uid types.UID, all bool)

	// RuntimePods lists the pods of the runtime, including exited ones, as of a time after the
	// call began. It is called at most once per housekeeping. Optional: without it the handler
	// kills no orphans.
	RuntimePods func(ctx context.Context) ([]podworkers.RuntimePod, error)
	// Cleaners run in each housekeeping, in order, after the workers received the desired pods and
	// before restarts and the killing of leftovers. A kubelet has: probes, statuses, user
	// namespaces, directories, orphaned mirror pods.
	Cleaners []Cleaner
	// FinalCleaners run after the killing of leftovers. A kubelet has: metrics, cgroups (listed by
	// Prepare), crash-loop back-off.
	FinalCleaners []Cleaner

	// Logger receives log records. Optional: without it they are discarded.
	Logger *slog.Logger
}

// DefaultHandler is the usual Handler. It keeps the desired pods, admits new ones, and updates the
// workers. Use NewHandler. The Loop's goroutine calls the methods of Handler; the other methods
// are safe for concurrent use.
type DefaultHandler struct {
	cfg     HandlerConfig
	desired *Desired

	// refused are the desired pods that were not admitted. leaving are the pods that are no longer
	// desired and may have a worker. The loop writes them, and other goroutines read them.
	mu       sync.Mutex
	refused  map[types.UID]refusal
	leaving  map[types.UID]*v1.Pod
	cleaned  []CleanerStatus
	orderErr string // used by the loop only
	// uncreated are the new pods that the workers refused. Used by the loop only.
	uncreated map[types.UID]bool
	// lastActive are the active pods at the last call of the Allocator. Used by the loop only.
	lastActive map[types.UID]bool
}

var _ Handler = (*DefaultHandler)(nil)

// NewHandler returns a DefaultHandler, or an error if a required field is missing.
func NewHandler(cfg HandlerConfig) (*DefaultHandler, error) {
	f := fields.Of("syncloop: HandlerConfig")
	f.Required("Workers", cfg.Workers)
	if err := errors.Join(f.Err(), checkCleaners("Cleaners", cfg.Cleaners), checkCleaners("FinalCleaners", cfg.FinalCleaners)); err != nil {
		return nil, err
	}
	fields.Default[SourceReadiness](&cfg.Sources, alwaysReady{})
	fields.Default[Allocator](&cfg.Allocator, allocateRequests{})
	fields.Default(&cfg.Desired, &Desired{})
	fields.Default(&cfg.Order, ByCreation)
	fields.Default(&cfg.OnReject, func(*v1.Pod, Rejection) {})
	fields.Default(&cfg.OnRestart, func(*v1.Pod) {})
	fields.Default(&cfg.Phase, func(pod *v1.Pod) v1.PodPhase { return pod.Status.Phase })
	fields.Default(&cfg.RuntimePods, func(context.Context) ([]podworkers.RuntimePod, error) { return nil, nil })
	fields.Default(&cfg.Prune, func(context.Context, types.UID, bool) {})
	fields.Logger(&cfg.Logger)
	return &DefaultHandler{cfg: cfg, desired: cfg.Desired, refused: map[types.UID]refusal{}, leaving: map[types.UID]*v1.Pod{}, uncreated: map[types.UID]bool{}}, nil
}

type alwaysReady struct{}

func (alwaysReady) Ready() bool             { return true }
func (alwaysReady) SourceReady(string) bool { return true }

// Desired returns the index of the desired pods.
func (h *DefaultHandler) Desired() *Desired { return h.desired }

// HandlePodAdditions stores new pods, admits them in order, and passes the admitted ones to the
// workers.
func (h *DefaultHandler) HandlePodAdditions(_ context.Context, pods []*v1.Pod) {
	var own []*v1.Pod
	for _, pod := range pods {
		if podfacts.IsMirror(pod) {
			h.desired.Set(pod)
			h.syncStaticOf(pod)
			continue
		}
		own = append(own, pod)
	}
	own, b := h.newBatch(own)
	for _, pod := range own {
		h.desired.Set(pod)
		h.locked(func() { delete(h.leaving, pod.UID) })
		if h.admit(pod, b) {
			h.create(pod)
		}
	}
	h.allocate(RetryPodsAdded, nil)
}

// create passes a new pod to the workers. If they refuse it, housekeeping tries again.
func (h *DefaultHandler) create(pod *v1.Pod) {
	delete(h.uncreated, pod.UID)
	if !h.update(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod}) {
		h.uncreated[pod.UID] = true
	}
}

// HandlePodUpdates stores changed pods and passes them to their workers without another admission.
// A rejected pod is passed only for its teardown. A waiting pod is admitted again.
func (h *DefaultHandler) HandlePodUpdates(_ context.Context, pods []*v1.Pod) {
	for _, pod := range pods {
		h.desired.Set(pod)
	}
	h.allocate(RetryPodUpdated, pods)
	admitAgain := false
	for _, pod := range pods {
		switch {
		case podfacts.IsMirror(pod):
			h.syncStaticOf(pod)
		case pod.DeletionTimestamp != nil || !h.isUnadmitted(pod.UID):
			h.update(podworkers.Update{Type: podworkers.UpdateUpdate, Pod: pod})
		default:
			admitAgain = admitAgain || h.isWaiting(pod.UID)
		}
	}
	if admitAgain {
		h.admitWaiting()
	}
}

// HandlePodRemoves drops pods and kills them if the relevant sources are ready. Otherwise
// housekeeping kills them later.
func (h *DefaultHandler) HandlePodRemoves(_ context.Context, pods []*v1.Pod) {
	for _, pod := range pods {
		h.desired.Remove(pod)
		if podfacts.IsMirror(pod) {
			h.syncStaticOf(pod)
			continue
		}
		delete(h.uncreated, pod.UID)
		unadmitted := h.isUnadmitted(pod.UID)
		h.locked(func() {
			delete(h.refused, pod.UID)
			h.leaving[pod.UID] = pod
		})
		switch {
		case unadmitted:
		case !h.mayRemove(pod):
			h.cfg.Logger.Info("pod removed from its source; waiting until sources are ready before killing it", podAttrs(pod)...)
		default:
			h.update(podworkers.Update{Type: podworkers.UpdateKill, Pod: pod})
		}
	}
	h.allocate(RetryPodsRemoved, nil)
}

// HandlePodReconcile stores pods whose status changed. It syncs a pod whose Ready condition is
// inconsistent with its readiness gates, and a running pod with a terminal phase that another
// writer set. It prunes the dead containers of an evicted pod.
func (h *DefaultHandler) HandlePodReconcile(ctx context.Context, pods []*v1.Pod) {
	for _, pod := range pods {
		h.desired.Set(pod)
		if podfacts.IsMirror(pod) || h.isUnadmitted(pod.UID) {
			continue
		}
		if podfacts.ReadyIsStale(pod) || h.endedByOthers(pod) {
			h.update(podworkers.Update{Type: podworkers.UpdateSync, Pod: pod})
		}
		if pod.Status.Phase == v1.PodFailed && pod.Status.Reason == "Evicted" {
			h.prune(ctx, pod.UID)
		}
	}
}

// endedByOthers reports whether a running pod has a terminal phase. This agent writes a terminal
// phase only after the pod has stopped, so another writer set it.
func (h *DefaultHandler) endedByOthers(pod *v1.Pod) bool {
	return podfacts.IsTerminalPhase(pod.Status.Phase) && h.cfg.Workers.State(pod.UID).State == podworkers.StateSyncing
}

// HandlePodSyncs makes workers sync their pods. Unknown UIDs are ignored.
func (h *DefaultHandler) HandlePodSyncs(ctx context.Context, syncs []Sync) {
	for _, s := range syncs {
		uid := h.desired.Translate(s.UID)
		switch pod := h.desired.Get(uid); {
		case pod == nil:
			h.syncLeaving(uid, s.Kinds)
		case !h.isUnadmitted(uid):
			h.update(podworkers.Update{Type: podworkers.UpdateSync, Pod: pod})
		}
		if s.Kinds.Has(ContainerDied) {
			h.prune(ctx, uid)
		}
	}
}

// syncLeaving syncs a terminating pod that is no longer desired when its retry is due. Before all
// sources are ready, housekeeping does not do that.
func (h *DefaultHandler) syncLeaving(uid types.UID, kinds Kinds) {
	var pod *v1.Pod
	h.locked(func() { pod = h.leaving[uid] })
	if pod != nil && kinds.Has(SyncDue) && h.cfg.Workers.State(uid).TerminationRequested() {
		h.update(podworkers.Update{Type: podworkers.UpdateSync, Pod: pod})
	}
}

// syncStaticOf makes the static pod of a mirror pod sync, which repairs or replaces the mirror
// pod.
func (h *DefaultHandler) syncStaticOf(mirror *v1.Pod) {
	pod := h.desired.ByName(mirror.Namespace, mirror.Name)
	if pod == nil || !podfacts.IsStatic(pod) || h.isUnadmitted(pod.UID) {
		return
	}
	h.update(podworkers.Update{Type: podworkers.UpdateUpdate, Pod: pod})
}

// update passes an update to the workers, with the current mirror pod and allocation. It reports
// success.
func (h *DefaultHandler) update(u podworkers.Update) bool {
	if u.Pod != nil {
		u.MirrorPod = h.desired.MirrorOf(u.Pod)
		u.Pod = h.cfg.Allocator.Allocated(u.Pod)
	}
	err := h.cfg.Workers.UpdatePod(u)
	if err == nil {
		return true
	}
	if !errors.Is(err, podworkers.ErrAgentStopping) {
		attrs := []any{"err", err, "update", string(u.Type)}
		if u.Pod != nil {
			attrs = append(attrs, podAttrs(u.Pod)...)
		} else if u.RuntimePod != nil {
			attrs = append(attrs, "pod", u.RuntimePod.Namespace+"/"+u.RuntimePod.Name, "podUID", u.RuntimePod.UID)
		}
		h.cfg.Logger.Error("the workers refused an update", attrs...)
	}
	return false
}

// prune removes dead containers of a pod: all of them once the worker no longer needs them.
func (h *DefaultHandler) prune(ctx context.Context, uid types.UID) {
	h.cfg.Prune(ctx, uid, h.cfg.Workers.State(uid).ContainersMayBeRemoved())
}

// mayRemove reports whether a removed pod may be killed: with PerSource if its source is ready,
// otherwise if all sources are.
func (h *DefaultHandler) mayRemove(pod *v1.Pod) bool {
	if h.cfg.PerSource {
		return h.cfg.Sources.SourceReady(pod.Annotations[podfacts.ConfigSource])
	}
	return h.cfg.Sources.Ready()
}

func (h *DefaultHandler) locked(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// leavingPods returns the pods that are no longer desired and may have a worker.
func (h *DefaultHandler) leavingPods() (pods []*v1.Pod) {
	h.locked(func() { pods = slices.Collect(maps.Values(h.leaving)) })
	return pods
}

func podAttrs(pod *v1.Pod) []any {
	return []any{"pod", pod.Namespace + "/" + pod.Name, "podUID", pod.UID}
}
