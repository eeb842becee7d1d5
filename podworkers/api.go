package podworkers

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UpdateType says what an Update asks for. The workers decide by it: UpdateKill
// requests termination, UpdateCreate of a pod whose termination was requested makes
// a pod of the same UID start after it, and UpdateUpdate and UpdateSync only bring the
// newest pod. A syncer must not decide by Work.Type: updates coalesce, so a Create
// may arrive as a Sync.
type UpdateType string

// The update types.
const (
	// UpdateCreate: a source names the pod for the first time.
	UpdateCreate UpdateType = "create"
	// UpdateUpdate: the pod has changed.
	UpdateUpdate UpdateType = "update"
	// UpdateSync: the pod is the same, and is to be synced again.
	UpdateSync UpdateType = "sync"
	// UpdateKill: the pod is to be terminated.
	UpdateKill UpdateType = "kill"
)

// RuntimePod is a pod of which only the runtime tells: nobody has its spec. All
// fields are required.
type RuntimePod struct {
	UID       types.UID
	Name      string
	Namespace string
}

// Update is one input to a pod's worker.
type Update struct {
	Type UpdateType
	// Pod is the desired pod. It is shared and must never be changed.
	Pod *v1.Pod
	// MirrorPod is the API server's copy of a static pod, if there is one.
	MirrorPod *v1.Pod
	// RuntimePod names a pod that only the runtime knows. It goes with UpdateKill
	// only. Beside a Pod it is ignored; the two must not be different pods.
	RuntimePod *RuntimePod
	// StartTime is when the change was first seen; zero means now. When updates
	// coalesce the oldest one survives.
	StartTime time.Time
	// Kill holds what goes with UpdateKill; nil for the defaults. With any other
	// type the update is refused.
	Kill *KillOptions
}

// KillOptions go with an Update of type UpdateKill.
type KillOptions struct {
	// Done is closed, exactly once, when the pod's containers have stopped or
	// when there is nothing to stop. It stays open when the agent stops first, and
	// when UpdatePod returns an error. May be nil.
	Done chan<- struct{}
	// Evict marks the pod as evicted: its content may be removed.
	Evict bool
	// Status changes the pod's status before it is published, on each
	// terminating attempt; the last one registered counts. May be nil.
	Status func(*v1.PodStatus)
	// GracePeriodSeconds overrides the pod's grace period when present. Zero
	// and negative values mean one second. For a RuntimePod it means nothing.
	GracePeriodSeconds *int64
}

// Work is what a worker hands to the syncer.
type Work struct {
	// Type is that of the newest update, for metrics and logs.
	Type UpdateType
	// Pod is the desired pod. It is shared and must never be changed.
	Pod       *v1.Pod
	MirrorPod *v1.Pod
	// ActedAt is at or after the end of the previous call for this UID. It is zero
	// when nothing was ever done that an observation could be too old for: a pod
	// that is new begins with the end of the latest call of any forgotten pod, as
	// it may be one of them again. The syncer begins by asking for an observation
	// that is newer.
	ActedAt time.Time
	// StartTime is when the oldest change served by this call was first seen.
	StartTime time.Time
	// GracePeriodSeconds is the effective grace period, at least 1, in the
	// terminating calls; 0 in the others. Within one pod it never grows.
	GracePeriodSeconds int64
	// GraceFromSpec tells that GracePeriodSeconds is merely the spec's own
	// value: nobody overrode it.
	GraceFromSpec bool
	// Evicted tells that the pod is being evicted.
	Evicted bool
	// Status is the last status function registered by a kill, nil when there
	// is none. Terminating calls apply it before they publish.
	Status func(*v1.PodStatus)
}

// PodSyncer does the work of a pod's lifecycle. A consumer implements it.
//
// For one UID the calls follow SyncPod* (SyncTerminatingPod+ SyncTerminatedPod+)?
// and never overlap; for different UIDs they run at the same time. Every call may
// be repeated after an error and must pick up from what it finds, including
// after a crash of the agent.
//
// The context is cancelled when what runs is no longer wanted: termination was
// requested, the grace period shrank, or the agent stops. The last is told apart
// by context.Cause(ctx) == ErrAgentStopping: then return soon and leave the pod
// as it is. SyncTerminatedPod is not cancelled by updates and bounds its own waits.
type PodSyncer interface {
	// SyncPod brings the pod closer to its spec. nil means converged, an error
	// leads to a retry. terminal says that the pod has reached a natural end
	// (phase Succeeded or Failed): SyncTerminatingPod follows at once.
	SyncPod(ctx context.Context, w Work) (terminal bool, err error)
	// SyncTerminatingPod stops every container within w.GracePeriodSeconds. nil
	// means that they have stopped for good; nothing is started afterwards.
	SyncTerminatingPod(ctx context.Context, w Work) error
	// SyncTerminatedPod releases what the pod held: volumes, cgroups,
	// directories. nil ends the pod's worker.
	SyncTerminatedPod(ctx context.Context, w Work) error
}

// OrphanSyncer is an optional ability of a PodSyncer: stopping pods that only the
// runtime knows. Without it, such updates are refused.
type OrphanSyncer interface {
	// SyncTerminatingOrphan stops the containers of a pod without a spec. The
	// grace period is the syncer's choice, as only the runtime may know one. It looks
	// up what runs at each attempt.
	SyncTerminatingOrphan(ctx context.Context, p RuntimePod, actedAt time.Time) error
}
