package podworkers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Forget drops one finished pod for which a restart was requested, and reports whether it did.
// It is for a caller that desires this pod but does not have the complete set of desired pods
// that SyncKnownPods needs. DesiredKnown does not change. The caller then sends the pod again
// with UpdateCreate.
func (w *Workers) Forget(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.trace(TraceEvent{At: now, Kind: TraceForget, UID: uid})
	forgotten := w.m.forget(uid, now)
	w.apply(now)
	return forgotten
}
