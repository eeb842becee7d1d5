package podworkers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Forget drops one finished pod that was asked to restart, and tells whether it
// did. It is for a caller that knows this pod to be desired while it cannot yet
// name all desired pods, as SyncKnownPods needs: DesiredKnown stays as it is. The
// caller sends the pod again with UpdateCreate.
func (w *Workers) Forget(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.trace(TraceEvent{At: now, Kind: TraceForget, UID: uid})
	forgotten := w.m.forget(uid, now)
	w.apply(now)
	return forgotten
}
