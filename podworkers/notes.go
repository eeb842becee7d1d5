package podworkers

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
)

// note is one notification for the owner: a due pod, or a transition.
type note struct {
	due  types.UID
	move Transition
}

// deliverNotes calls the owner's callbacks in order until stop is closed, and then delivers the
// notes that remain.
func (w *Workers) deliverNotes(stop <-chan struct{}) {
	for {
		select {
		case <-w.notify:
			w.deliverAll()
		case <-stop:
			w.deliverAll()
			return
		}
	}
}

func (w *Workers) deliverAll() {
	w.mu.Lock()
	notes := w.notes
	w.notes = nil
	w.mu.Unlock()
	for _, n := range notes {
		w.deliver(n)
	}
}

func (w *Workers) deliver(n note) {
	var err error
	if n.due != "" {
		err = run.Guard("Config.OnDue", func() error { w.cfg.OnDue(n.due); return nil })
	} else {
		err = run.Guard("Config.OnTransition", func() error { w.cfg.OnTransition(n.move); return nil })
	}
	if err != nil {
		w.log.Error("a callback panicked", "err", err, "stack", run.StackOf(err))
	}
}
