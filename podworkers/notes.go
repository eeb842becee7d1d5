package podworkers

import (
	"runtime/debug"

	"k8s.io/apimachinery/pkg/types"
)

// note is something to tell the owner: a due pod, or a transition.
type note struct {
	due  types.UID
	move Transition
}

// tellOwner calls the owner's callbacks, in order, until stop is closed. What is
// there to tell by then is still told.
func (w *Workers) tellOwner(stop <-chan struct{}) {
	for {
		select {
		case <-w.notify:
			w.tellAll()
		case <-stop:
			w.tellAll()
			return
		}
	}
}

func (w *Workers) tellAll() {
	w.mu.Lock()
	notes := w.notes
	w.notes = nil
	w.mu.Unlock()
	for _, n := range notes {
		w.tell(n)
	}
}

func (w *Workers) tell(n note) {
	defer func() {
		if v := recover(); v != nil {
			w.log.Error("A callback of Config panicked", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	if n.due != "" {
		w.cfg.Resync(n.due)
		return
	}
	w.cfg.OnTransition(n.move)
}
