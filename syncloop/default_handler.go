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

// Workers is what the default handler needs of the pod workers;
// *podworkers.Workers has it. No method blocks.
//
// If the workers also have a method Forget(types.UID) bool, which drops a finished
// worker that was asked to restart, pods of ready sources can restart under their
// old UID while other sources are not ready.
type Workers interface {
	UpdatePod(podworkers.Update) error
	SyncKnownPods(desired []*v1.Pod) map[types.UID]podworkers.KnownPod
	State(uid types.UID) podworkers.PodState
	MirrorTerminating(fullName string) bool
}

// SourceReadiness tells which sources of pods have been heard and handled; the
// Merger of package podsource has it.
type SourceReadiness interface {
	Ready() bool
	SourceReady(source string) bool
}

// HandlerConfig configures a DefaultHandler. Only Workers is required.
type HandlerConfig struct {
	// Workers act on the pods. Required.
	Workers Workers
	// Sources tells whether it is known which pods should be there. nil means
	// that it always is.
	Sources SourceReadiness
	// Desired is where the handler keeps the desired pods, for parts that are built
	// before the handler and ask which pods those are. It belongs to one handler.
	// nil means one of the handler's own.
	Desired *Desired
	// PerSource lets pods of a ready source be removed, and restarted under
	// their old UID, while other sources are not ready. By default that waits for
	// all of them. Cleaning up what cannot be attributed to a source always does.
	PerSource bool

	// Admit decides whether a new pod may start. nil admits every pod.
	Admit Admitter
	// OnReject is told about a pod that was rejected; it records that the pod has
	// failed, as its status and as an event. The pod never reaches a worker, except
	// to be torn down when it is deleted. nil tells nobody.
	OnReject func(pod *v1.Pod, why Rejection)
	// OnRestart is told about a pod that begins anew under the UID of one that had to
	// end first. It must not block. nil tells nobody.
	OnRestart func(pod *v1.Pod)
	// Allocator says what pods were granted of what they ask for, which is what the workers
	// are told and what counts as active. nil: what they ask for.
	Allocator Allocator
	// Order is the order of admission among pods that are new at the same time.
	// nil means ByCreation.
	Order Order
	// Phase returns the newest phase known of a pod, which may be ahead of the
	// one in its status. nil means the one in its status.
	Phase func(pod *v1.Pod) v1.PodPhase
	// Prune removes dead containers of a pod that are not needed any more: all
	// of them, or all but the latest ones. It hands the work on and does not
	// block. nil removes none.
	Prune func(ctx context.Context, uid types.UID, all bool)

	// RuntimePods lists what the runtime has, exited pods included, looked up
	// after the call began. It is called at most once per housekeeping. nil
	// means that nothing is left over from elsewhere.
	RuntimePods func(ctx context.Context) ([]podworkers.RuntimePod, error)
	// Cleaners run in each housekeeping, in order, after the workers were told
	// which pods are desired and before pods restart and leftovers are killed. A
	// kubelet's are: probes, statuses, user namespaces, directories, orphan
	// mirrors.
	Cleaners []Cleaner
	// FinalCleaners run after that. A kubelet's are: metrics, cgroups (listed by
	// Prepare), crash-loop backoff.
	FinalCleaners []Cleaner

	// Logger receives what a person should know. nil discards.
	Logger *slog.Logger
}

// DefaultHandler is the usual Handler: it keeps the desired pods, admits new
// ones, and tells the workers. Use NewHandler.
type DefaultHandler struct {
	cfg     HandlerConfig
	desired *Desired

	// refused are the desired pods that were not admitted; leaving are the pods
	// that are not desired any more and may still have a worker. The loop writes
	// them, others read.
	mu       sync.Mutex
	refused  map[types.UID]refusal
	leaving  map[types.UID]*v1.Pod
	cleaned  []CleanerStatus
	orderErr string // the loop's own
	// counted are the pods that the Allocator heard of last. The loop's own.
	counted map[types.UID]bool
}

var _ Handler = (*DefaultHandler)(nil)

// NewHandler returns a DefaultHandler.
func NewHandler(cfg HandlerConfig) (*DefaultHandler, error) {
	f := fields.Of("syncloop: HandlerConfig")
	f.Required("Workers", cfg.Workers)
	if err := errors.Join(f.Err(), checkCleaners("Cleaners", cfg.Cleaners), checkCleaners("FinalCleaners", cfg.FinalCleaners)); err != nil {
		return nil, err
	}
	fields.Default[SourceReadiness](&cfg.Sources, alwaysReady{})
	fields.Default[Allocator](&cfg.Allocator, asDesired{})
	fields.Default(&cfg.Desired, &Desired{})
	fields.Default(&cfg.Order, ByCreation)
	fields.Default(&cfg.OnReject, func(*v1.Pod, Rejection) {})
	fields.Default(&cfg.OnRestart, func(*v1.Pod) {})
	fields.Default(&cfg.Phase, func(pod *v1.Pod) v1.PodPhase { return pod.Status.Phase })
	fields.Default(&cfg.RuntimePods, func(context.Context) ([]podworkers.RuntimePod, error) { return nil, nil })
	fields.Default(&cfg.Prune, func(context.Context, types.UID, bool) {})
	fields.Logger(&cfg.Logger)
	return &DefaultHandler{cfg: cfg, desired: cfg.Desired, refused: map[types.UID]refusal{}, leaving: map[types.UID]*v1.Pod{}}, nil
}

type alwaysReady struct{}

func (alwaysReady) Ready() bool             { return true }
func (alwaysReady) SourceReady(string) bool { return true }

// Desired returns the index of the desired pods.
func (h *DefaultHandler) Desired() *Desired { return h.desired }

// HandlePodAdditions stores new pods, admits them in order, and gives the admitted
// ones to the workers.
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
			h.update(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod})
		}
	}
	h.allocate(RetryPodsAdded, nil)
}

// HandlePodUpdates passes changed pods on to their workers. There is no second
// admission. A pod that was rejected is passed on only to be torn down; one that is
// held back is asked about again.
func (h *DefaultHandler) HandlePodUpdates(_ context.Context, pods []*v1.Pod) {
	for _, pod := range pods {
		h.desired.Set(pod)
	}
	h.allocate(RetryPodUpdated, pods)
	askAgain := false
	for _, pod := range pods {
		switch {
		case podfacts.IsMirror(pod):
			h.syncStaticOf(pod)
		case pod.DeletionTimestamp != nil || !h.outside(pod.UID):
			h.update(podworkers.Update{Type: podworkers.UpdateUpdate, Pod: pod})
		default:
			askAgain = askAgain || h.held(pod.UID)
		}
	}
	if askAgain {
		h.admitHeld()
	}
}

// HandlePodRemoves forgets pods and has them killed, if it is certain that they
// are not wanted. If not, housekeeping does it later.
func (h *DefaultHandler) HandlePodRemoves(_ context.Context, pods []*v1.Pod) {
	for _, pod := range pods {
		h.desired.Remove(pod)
		if podfacts.IsMirror(pod) {
			h.syncStaticOf(pod)
			continue
		}
		outside := h.outside(pod.UID)
		h.locked(func() {
			delete(h.refused, pod.UID)
			h.leaving[pod.UID] = pod
		})
		switch {
		case outside:
		case !h.mayRemove(pod):
			h.cfg.Logger.Info("pod is gone from its source; killing it waits for the other sources", podAttrs(pod)...)
		default:
			h.update(podworkers.Update{Type: podworkers.UpdateKill, Pod: pod})
		}
	}
	h.allocate(RetryPodsRemoved, nil)
}

// HandlePodReconcile stores pods of which only the status changed. A pod whose
// Ready condition does not follow its readiness gates is synced, and so is one that
// was ended by others, while it runs; the dead containers of an evicted pod are pruned.
func (h *DefaultHandler) HandlePodReconcile(ctx context.Context, pods []*v1.Pod) {
	for _, pod := range pods {
		h.desired.Set(pod)
		if podfacts.IsMirror(pod) || h.outside(pod.UID) {
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

// endedByOthers tells whether a pod that is said to have ended still runs: what this agent
// says itself comes when it does no more.
func (h *DefaultHandler) endedByOthers(pod *v1.Pod) bool {
	return podfacts.IsTerminalPhase(pod.Status.Phase) && h.cfg.Workers.State(pod.UID).State == podworkers.StateSyncing
}

// HandlePodSyncs makes workers look at their pods again.
func (h *DefaultHandler) HandlePodSyncs(ctx context.Context, syncs []Sync) {
	for _, s := range syncs {
		uid := h.desired.Translate(s.UID)
		switch pod := h.desired.Get(uid); {
		case pod == nil:
			h.syncLeaving(uid, s.Kinds)
		case !h.outside(uid):
			h.update(podworkers.Update{Type: podworkers.UpdateSync, Pod: pod})
		}
		if s.Kinds.Has(ContainerDied) {
			h.prune(ctx, uid)
		}
	}
}

// syncLeaving repeats the termination of a pod that is not desired any more,
// when it is due: before all sources are ready no housekeeping does.
func (h *DefaultHandler) syncLeaving(uid types.UID, kinds Kinds) {
	var pod *v1.Pod
	h.locked(func() { pod = h.leaving[uid] })
	if pod != nil && kinds.Has(SyncDue) && h.cfg.Workers.State(uid).TerminationRequested() {
		h.update(podworkers.Update{Type: podworkers.UpdateSync, Pod: pod})
	}
}

// syncStaticOf makes the static pod of a mirror pod sync, which repairs or
// replaces the mirror.
func (h *DefaultHandler) syncStaticOf(mirror *v1.Pod) {
	pod := h.desired.ByName(mirror.Namespace, mirror.Name)
	if pod == nil || !podfacts.IsStatic(pod) || h.outside(pod.UID) {
		return
	}
	h.update(podworkers.Update{Type: podworkers.UpdateUpdate, Pod: pod})
}

// update passes an update on, with the pod's present mirror pod.
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

// prune has the dead containers of a pod removed: all of them once its content
// is not needed and its exit codes are known.
func (h *DefaultHandler) prune(ctx context.Context, uid types.UID) {
	h.cfg.Prune(ctx, uid, h.cfg.Workers.State(uid).ContainersMayBeRemoved())
}

// mayRemove tells whether it is certain that a removed pod is not wanted.
func (h *DefaultHandler) mayRemove(pod *v1.Pod) bool {
	if h.cfg.PerSource {
		return h.cfg.Sources.SourceReady(pod.Annotations[podfacts.ConfigSource])
	}
	return h.cfg.Sources.Ready()
}

// locked calls f with mu held.
func (h *DefaultHandler) locked(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// left returns the pods that are not desired any more and may still have a worker.
func (h *DefaultHandler) left() (pods []*v1.Pod) {
	h.locked(func() { pods = slices.Collect(maps.Values(h.leaving)) })
	return pods
}

func podAttrs(pod *v1.Pod) []any {
	return []any{"pod", pod.Namespace + "/" + pod.Name, "podUID", pod.UID}
}
