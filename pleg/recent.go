package pleg

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// recentHints are the pods without a record that were looked at because of a hint a
// moment ago. Many events about a pod that is gone, such as a backlog, are few looks
// with it.
type recentHints struct {
	of map[types.UID]time.Time
	// last is when the last look began that a hint had caused.
	last time.Time
}

// manyHints is how many are kept before old ones are thrown out.
const manyHints = 64

// keep notes a pod whose record is dropped.
func (r *recentHints) keep(p *pod) {
	if p.hinted.IsZero() || r.last.Sub(p.hinted) >= hintWindow {
		return
	}
	if r.of == nil {
		r.of = map[types.UID]time.Time{}
	}
	if len(r.of) >= manyHints {
		for uid, at := range r.of {
			if r.last.Sub(at) >= hintWindow {
				delete(r.of, uid)
			}
		}
	}
	r.of[p.uid] = p.hinted
}
