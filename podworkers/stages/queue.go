package stages

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// queue decides which pods are to be released. It is pure: the time is handed in.
type queue struct {
	parallel int
	rest     time.Duration
	running  int
	pods     map[types.UID]*leftover
}

// leftover is a pod of which something is there.
type leftover struct {
	stages    []string
	found     time.Time
	owned     bool      // somebody needs it, as far as was seen since the last listing
	began     time.Time // of the release that runs, zero if none does
	err       error     // of the last release, nil if there was none
	errAt     time.Time
	notBefore time.Time // the next attempt
}

// listed takes a listing: what is in it may be released. What is not in one that is
// complete is forgotten.
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

// due are the pods whose turn it is, in order: those that never failed, then those
// whose failure is longest ago, so that what hangs holds up nobody for good.
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

// next is when the first pod that rests is due; false when none rests.
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

// end takes the end of a release, and tells whether its error is news.
func (q *queue) end(uid types.UID, err error, now time.Time) (news bool) {
	q.running--
	if err == nil {
		delete(q.pods, uid)
		return false
	}
	p := q.pods[uid]
	news = p.err == nil || p.err.Error() != err.Error()
	p.began, p.err, p.errAt, p.notBefore = time.Time{}, err, now, now.Add(q.rest)
	return news
}
