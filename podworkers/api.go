package podworkers

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UpdateType is the kind of an Update. UpdateKill requests termination. UpdateCreate of a pod
// whose termination was requested starts a pod of the same UID after it; UpdateUpdate and
// UpdateSync do so only after a RuntimePod. Each of the three starts a pod without a worker. A
// syncer must not decide by Work.Type: updates coalesce, so a Create may arrive as a Sync.
type UpdateType string

// The update types.
const (
	// UpdateCreate: a source names the pod for the first time.
	UpdateCreate UpdateType = "create"
	// UpdateUpdate: the pod has changed.
	UpdateUpdate UpdateType = "update"
	// UpdateSync: the pod is unchanged and needs another sync.
	UpdateSync UpdateType = "sync"
	// UpdateKill: the pod must terminate. A pod without a worker gets one that starts with
	// SyncTerminatingPod, because it may run since before a restart of the agent. A static pod that
	// waits for another one finishes without a call, unless it was sent as a RuntimePod.
	UpdateKill UpdateType = "kill"
)

// RuntimePod identifies a pod that the runtime lists and that has no spec. UID, Name and Namespace
// are required.
type RuntimePod struct {
	UID       types.UID
	Name      string
	Namespace string
	// Source is the source that named the pod, or "" if it is unknown. The workers ignore it.
	// Optional.
	Source string
}

// Update is one input to a pod's worker.
type Update struct {
	Type UpdateType
	// Pod is the desired pod, no mirror pod. It is shared and must never be changed.
	Pod *v1.Pod
	// MirrorPod is the API server's copy of a static pod, or nil.
	MirrorPod *v1.Pod
	// RuntimePod identifies a pod without a spec, for UpdateKill only. It is ignored if Pod is
	// set; both must have the same UID.
	RuntimePod *RuntimePod
	// StartTime is the time at which the change was first seen. Default: now. Coalesced updates
	// keep the oldest one.
	StartTime time.Time
	// Kill has the options of UpdateKill. Optional. Updates of other types are refused with it.
	Kill *KillOptions
}

// KillOptions are options of an UpdateKill.
type KillOptions struct {
	// Done is closed exactly once: when the pod's containers have stopped, or at once if none
	// can run. It stays open if the agent stops first, and if UpdatePod returns an error.
	// Optional.
	Done chan<- struct{}
	// Evict marks the pod as evicted. Its content may be removed.
	Evict bool
	// Status changes the pod's status before it is published, on each terminating attempt. The
	// function of the last kill counts. Optional.
	Status func(*v1.PodStatus)
	// GracePeriodSeconds overrides the pod's grace period. Values below 1 mean 1. It has no
	// effect on a RuntimePod. Optional.
	GracePeriodSeconds *int64
}

// Work is the input of one call of the syncer.
type Work struct {
	// Type is the type of the newest update, for metrics and logs.
	Type UpdateType
	// Pod is the desired pod. It is shared and must never be changed.
	Pod       *v1.Pod
	MirrorPod *v1.Pod
	// ActedAt is at or after the end of the previous call for this UID. The syncer must first
	// obtain an observation that is newer. For a new pod it is the end of the latest call of any
	// forgotten pod, because the new pod may be a forgotten one. Zero means that no earlier call
	// can make an observation too old.
	ActedAt time.Time
	// StartTime is the time at which the oldest change of this call was first seen.
	StartTime time.Time
	// GracePeriodSeconds is the effective grace period of terminating calls, at least 1, and 0
	// in other calls. It never grows during a pod's life.
	GracePeriodSeconds int64
	// GraceFromSpec is true if GracePeriodSeconds is the value of the spec, without an override.
	GraceFromSpec bool
	// Evicted is true if the pod is being evicted.
	Evicted bool
	// Status is the status function of the last kill, or nil. Terminating calls apply it before
	// they publish.
	Status func(*v1.PodStatus)
}

// PodSyncer does the work of a pod's lifecycle. A consumer implements it.
//
// For one UID the calls follow SyncPod* (SyncTerminatingPod+ SyncTerminatedPod+)? and never
// overlap. Calls for different UIDs run in parallel. Every call may be repeated after an error,
// and must continue from the state that it finds, including after a crash of the agent.
//
// The context is cancelled when termination was requested, when the grace period shrank, or when
// the agent stops. If context.Cause(ctx) == ErrAgentStopping, return soon and leave the pod as
// it is. SyncTerminatedPod is not cancelled by updates and must bound its own waits.
type PodSyncer interface {
	// SyncPod brings the pod closer to its spec. It returns nil when the pod has converged; an
	// error leads to a retry. terminal is true at the pod's natural end (phase Succeeded or
	// Failed): SyncTerminatingPod follows at once. With an error it is ignored.
	SyncPod(ctx context.Context, w Work) (terminal bool, err error)
	// SyncTerminatingPod stops every container within w.GracePeriodSeconds. It returns nil when
	// all have stopped for good. No container may start afterwards.
	SyncTerminatingPod(ctx context.Context, w Work) error
	// SyncTerminatedPod releases the pod's resources: volumes, cgroups, directories. The pod's
	// worker ends when it returns nil.
	SyncTerminatedPod(ctx context.Context, w Work) error
}

// OrphanSyncer is an optional interface of a PodSyncer. It stops pods without a spec. Without
// it, updates with only a RuntimePod are refused.
type OrphanSyncer interface {
	// SyncTerminatingOrphan stops the containers of a pod without a spec. The syncer chooses the
	// grace period, because only the runtime may have one. It reads the running containers at
	// each attempt.
	SyncTerminatingOrphan(ctx context.Context, p RuntimePod, actedAt time.Time) error
}
