package podworkers

import (
	"context"
)

// SyncerFuncs is a PodSyncer made of functions. A nil function succeeds without effect.
type SyncerFuncs struct {
	Sync        func(ctx context.Context, w Work) (terminal bool, err error)
	Terminating func(ctx context.Context, w Work) error
	Terminated  func(ctx context.Context, w Work) error
}

var _ PodSyncer = SyncerFuncs{}

// SyncPod implements PodSyncer.
func (f SyncerFuncs) SyncPod(ctx context.Context, w Work) (bool, error) {
	if f.Sync == nil {
		return false, nil
	}
	return f.Sync(ctx, w)
}

// SyncTerminatingPod implements PodSyncer.
func (f SyncerFuncs) SyncTerminatingPod(ctx context.Context, w Work) error {
	if f.Terminating == nil {
		return nil
	}
	return f.Terminating(ctx, w)
}

// SyncTerminatedPod implements PodSyncer.
func (f SyncerFuncs) SyncTerminatedPod(ctx context.Context, w Work) error {
	if f.Terminated == nil {
		return nil
	}
	return f.Terminated(ctx, w)
}
