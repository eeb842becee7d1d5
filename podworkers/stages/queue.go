package stages

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// queue selects the pods to release. It is pure: callers pass the time.
type queue struct {
	parallel int
	rest     time.Duration
	running  int
	pods     map[types.UID]*leftover
}

// leftover is a pod with resources of some stage.
type leftover struct {
	stages    []string
	found     time.Time
	owned     bool      // in use, as of the last listing
	began     time.Time // start of the running release, zero without one
	err       error     // of the last release
	errAt     time.Time
	notBefore time.Time // time of the next attempt
}

// listed stores a listing: its pods may be released. Pods missing in a complete listing are
// forgotten.
func (q *queue) listed(found map[types.UID][]string, complete bool, now time.Time) {
	if complete {
		maps.DeleteFunc(q.pods, func(uid types.UID, p *leftover) bool {
			_, still := found[uid]
			return !still && p.began.IsZero()
		})
	}
	for _, p := range q.pods {
		p.owned = false
	}
	for uid, stages := range found {
		p := q.pods[uid]
		if p == nil {
			p = &leftover{found: now}
			q.pods[uid] = p
		}
		p.stages = stages
	}
}

// due returns the pods to release now: first pods without a failure, then by time of the last
// failure, oldest first. A hanging release thus delays each pod only for a limited time.
func (q *queue) due(now time.Time) []types.UID {
	var out []types.UID
	for uid, p := range q.pods {
		if p.waits() && !p.notBefore.After(now) {
			out = append(out, uid)
		}
	}
	slices.SortFunc(out, func(a, b types.UID) int {
		return cmp.Or(q.pods[a].errAt.Compare(q.pods[b].errAt), cmp.Compare(a, b))
	})
	return out
}

// next returns the earliest time at which a pod's pause ends, or false without such a pod.
func (q *queue) next(now time.Time) (at time.Time, ok bool) {
	for _, p := range q.pods {
		if p.waits() && p.notBefore.After(now) && (!ok || p.notBefore.Before(at)) {
			at, ok = p.notBefore, true
		}
	}
	return at, ok
}

func (p *leftover) waits() bool { return !p.owned && p.began.IsZero() }

func (q *queue) begin(uid types.UID, now time.Time) {
	q.pods[uid].began = now
	q.running++
}

// end records the end of a release, and reports whether its error is new.
func (q *queue) end(uid types.UID, err error, now time.Time) (changed bool) {
	q.running--
	if err == nil {
		delete(q.pods, uid)
		return false
	}
	p := q.pods[uid]
	changed = p.err == nil || p.err.Error() != err.Error()
	p.began, p.err, p.errAt, p.notBefore = time.Time{}, err, now, now.Add(q.rest)
	return changed
}
