package images

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// patience is how long a pull lets others go first that came later.
const patience = 5 * time.Minute

// urgency is what the order of pulls depends on.
type urgency struct {
	running bool          // containers of the pod run already
	missing int           // how many images the pod lacks
	waited  time.Duration // for how long
	number  uint64        // in the order of arrival
}

// compare is negative when a goes before b: first what pods need that run already;
// then what has waited for longer than patience, in the order of arrival; then what
// brings a pod closest to running, the one that lacks the fewest images; then the
// order of arrival.
func (a urgency) compare(b urgency) int {
	if a.running != b.running {
		return yesFirst(a.running)
	}
	late, later := a.waited > patience, b.waited > patience
	switch {
	case late != later:
		return yesFirst(late)
	case !late && a.missing != b.missing:
		return cmp.Compare(a.missing, b.missing)
	}
	return cmp.Compare(a.number, b.number)
}

func yesFirst(a bool) int {
	if a {
		return -1
	}
	return 1
}

// flight is one pull with all who wait for it: they want the same image with the same
// credentials.
type flight struct {
	key    string
	image  string
	number uint64
	since  time.Time
	values context.Context // of whoever came first, without its end

	// Guarded by queue.mu.
	members   []*attempt
	parked    bool // it could not begin at once
	abandoned bool // nobody waits any longer, and nobody may join
	cancel    context.CancelFunc
	started   time.Time

	began chan struct{} // closed when the pull begins
	done  chan struct{} // closed when it is over
	// Set before done is closed.
	result result
}

// result is what came of a flight.
type result struct {
	// found is set instead of all others: an image of that name has come while the
	// flight waited, and nothing was pulled.
	found bool
	// ref is what the runtime answered, and errs why it did not, per credential.
	ref  string
	errs []error
	// credential is the index of the one that worked.
	credential int
	// image is what was pulled, nil with inspectErr.
	image      *runtimeapi.Image
	inspectErr error
	took       time.Duration
}

// queue holds the flights. It starts goroutines, and each is joined by those who wait.
type queue struct {
	limit int // how many fly at a time; negative means no limit
	fly   func(context.Context, *flight)

	mu      sync.Mutex
	number  uint64
	waiting []*flight
	running map[*flight]bool
}

// join lets an attempt wait for a flight: for one that waits itself; for one that is
// under way if fresh is false; else for a new one.
func (q *queue) join(ctx context.Context, a *attempt, key string, fresh bool) *flight {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.find(key, fresh)
	if f == nil {
		q.number++
		f = &flight{
			key: key, image: a.name, number: q.number, since: time.Now(), values: context.WithoutCancel(ctx),
			began: make(chan struct{}), done: make(chan struct{}),
		}
		q.waiting = append(q.waiting, f)
	}
	f.members = append(f.members, a)
	q.dispatch()
	f.parked = f.parked || !q.running[f]
	return f
}

func (q *queue) find(key string, fresh bool) *flight {
	for _, f := range q.waiting {
		if f.key == key {
			return f
		}
	}
	for f := range q.running {
		if f.key == key && !f.abandoned && !fresh {
			return f
		}
	}
	return nil
}

// leave takes an attempt from a flight that has not ended for it. The last one calls
// the flight off and waits for its end.
func (q *queue) leave(f *flight, a *attempt) {
	q.mu.Lock()
	f.members = slices.DeleteFunc(f.members, func(m *attempt) bool { return m == a })
	if len(f.members) > 0 {
		q.mu.Unlock()
		return
	}
	f.abandoned = true
	flying := q.running[f]
	if flying {
		f.cancel()
	} else {
		q.waiting = slices.DeleteFunc(q.waiting, func(w *flight) bool { return w == f })
	}
	q.mu.Unlock()
	if flying {
		<-f.done
	}
}

// dispatch starts what may fly.
func (q *queue) dispatch() {
	for q.limit < 0 || len(q.running) < q.limit {
		f := q.next()
		if f == nil {
			return
		}
		q.waiting = slices.DeleteFunc(q.waiting, func(w *flight) bool { return w == f })
		q.running[f] = true
		var ctx context.Context
		ctx, f.cancel = context.WithCancel(f.values)
		f.started = time.Now()
		go q.run(ctx, f)
	}
}

// run is a flight's goroutine.
func (q *queue) run(ctx context.Context, f *flight) {
	q.fly(ctx, f)
	q.mu.Lock()
	defer q.mu.Unlock()
	f.cancel()
	delete(q.running, f)
	q.dispatch()
	close(f.done)
}

// next is the most urgent of those that may fly: not the second of two that want the
// same.
func (q *queue) next() *flight {
	for _, f := range q.inOrder() {
		if !q.flies(f.key) {
			return f
		}
	}
	return nil
}

// flies tells whether a pull of a key is under way that somebody waits for.
func (q *queue) flies(key string) bool {
	for f := range q.running {
		if f.key == key && !f.abandoned {
			return true
		}
	}
	return false
}

// inOrder are the waiting ones, the most urgent first.
func (q *queue) inOrder() []*flight {
	now := time.Now()
	return slices.SortedFunc(slices.Values(q.waiting), func(a, b *flight) int {
		return a.urgency(now).compare(b.urgency(now))
	})
}

// urgency is that of the most urgent of those who wait.
func (f *flight) urgency(now time.Time) urgency {
	u := urgency{missing: f.members[0].r.Missing, waited: now.Sub(f.since), number: f.number}
	for _, a := range f.members {
		u.running = u.running || a.r.Running
		u.missing = min(u.missing, a.r.Missing)
	}
	return u
}

// position is where a flight stands in the queue, counted from 1; 0 when it does not.
func (q *queue) position(f *flight) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Index(q.inOrder(), f) + 1
}

// waiters are those who wait for a flight, and whether it could not begin at once.
func (q *queue) waiters(f *flight) (members []*attempt, parked bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(f.members), f.parked
}
