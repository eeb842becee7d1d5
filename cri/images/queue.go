package images

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/run"
)

// maxQueueTime is the time after which a waiting pull precedes later, more urgent ones.
const maxQueueTime = 5 * time.Minute

// abandonLimit is the longest wait for a cancelled pull that ignores its context.
const abandonLimit = 5 * time.Second

type urgency struct {
	running bool          // the pod has running containers
	missing int           // number of images that the pod lacks
	waited  time.Duration // waiting time
	number  uint64        // order of arrival
}

// compare returns a negative number if a precedes b. Pulls for running pods come first; then pulls
// that have waited for more than maxQueueTime, by arrival; then pulls for the pods that lack the
// fewest images; then by arrival.
func (a urgency) compare(b urgency) int {
	if a.running != b.running {
		return trueFirst(a.running)
	}
	late, later := a.waited > maxQueueTime, b.waited > maxQueueTime
	switch {
	case late != later:
		return trueFirst(late)
	case !late && a.missing != b.missing:
		return cmp.Compare(a.missing, b.missing)
	}
	return cmp.Compare(a.number, b.number)
}

func trueFirst(a bool) int {
	if a {
		return -1
	}
	return 1
}

// flight is one pull with all attempts that wait for it. They need the same image with the same
// credentials.
type flight struct {
	key    string
	image  string
	number uint64
	since  time.Time
	values context.Context // of the first attempt, without its end

	// Guarded by queue.mu.
	members   []*attempt
	parked    bool // it could not begin at once
	abandoned bool // no attempt waits, and none may join
	cancel    context.CancelFunc
	started   time.Time

	began chan struct{} // closed when the pull begins
	done  chan struct{} // closed when the flight ends
	// Set before done is closed.
	result result
}

type result struct {
	// found excludes all other fields: an image with this name appeared while the flight waited,
	// and it did not pull.
	found bool
	// ref is the runtime's reply, and errs are the failures, one per credential.
	ref  string
	errs []error
	// credential is the index of the successful credential.
	credential int
	// image is the pulled image, or nil with inspectErr.
	image      *runtimeapi.Image
	inspectErr error
	took       time.Duration
}

// queue runs flights in order. It starts one goroutine per flight; the flight's attempts wait for
// its end.
type queue struct {
	limit int // maximum of concurrent flights; negative means no limit
	fly   func(context.Context, *flight)

	mu      sync.Mutex
	number  uint64
	waiting []*flight
	running map[*flight]bool
}

// join adds an attempt to a flight: to a waiting one, or if fresh is false to a running one, or
// else to a new one.
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

// leave removes an attempt from a flight. If none remains, leave cancels the flight and waits for
// its end, at most abandonLimit. After that the flight no longer counts for the limit.
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
	if flying && !run.Wait(f.done, abandonLimit) {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.running, f)
		q.dispatch()
	}
}

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

func (q *queue) run(ctx context.Context, f *flight) {
	q.fly(ctx, f)
	q.mu.Lock()
	defer q.mu.Unlock()
	f.cancel()
	delete(q.running, f)
	q.dispatch()
	close(f.done)
}

// next returns the most urgent flight that may start, or nil. Two flights with one key never run
// concurrently.
func (q *queue) next() *flight {
	for _, f := range q.inOrder() {
		if !q.flies(f.key) {
			return f
		}
	}
	return nil
}

// flies reports whether a flight with this key is running and not abandoned.
func (q *queue) flies(key string) bool {
	for f := range q.running {
		if f.key == key && !f.abandoned {
			return true
		}
	}
	return false
}

func (q *queue) inOrder() []*flight {
	now := time.Now()
	return slices.SortedFunc(slices.Values(q.waiting), func(a, b *flight) int {
		return a.urgency(now).compare(b.urgency(now))
	})
}

// urgency returns the highest urgency of the flight's attempts.
func (f *flight) urgency(now time.Time) urgency {
	u := urgency{missing: f.members[0].r.Missing, waited: now.Sub(f.since), number: f.number}
	for _, a := range f.members {
		u.running = u.running || a.r.Running
		u.missing = min(u.missing, a.r.Missing)
	}
	return u
}

// position returns a flight's position in the queue, from 1, or 0 if it does not wait.
func (q *queue) position(f *flight) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Index(q.inOrder(), f) + 1
}

// waiters returns the attempts of a flight, and whether it could not begin at once.
func (q *queue) waiters(f *flight) (members []*attempt, parked bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(f.members), f.parked
}
