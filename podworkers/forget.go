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
	r := w.m.records[uid]
	if r == nil || r.state != StateFinished || !r.restart {
		return false
	}
	now := time.Now()
	w.m.drop(r, now)
	w.m.settle(now)
	w.apply()
	return true
}
