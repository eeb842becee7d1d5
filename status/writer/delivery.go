package writer

import "time"

// delivery is the way of one pod's status to one target.
type delivery struct {
	slot
	entry  *entry
	target *target
	// waits is its place among those to be written.
	waits place
	// calling is the call in progress, began when it was made.
	calling callKind
	began   time.Time
	// over is closed when the turn in progress ends; nil: nobody waits for that.
	over chan struct{}
}

func newDelivery(t *target, e *entry) *delivery {
	d := &delivery{entry: e, target: t}
	d.receives, d.fromPod = t.receiver != nil, t.origin
	d.waits.owner = d
	return d
}

// current tells whether the pod has not been forgotten. Writer.mu is held.
func (d *delivery) current() bool { return d.target.w.entries[d.entry.uid] == d.entry }

// waitOver is closed when the turn in progress ends. Writer.mu is held.
func (d *delivery) waitOver() <-chan struct{} {
	if d.over == nil {
		d.over = make(chan struct{})
	}
	return d.over
}
