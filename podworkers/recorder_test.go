package podworkers

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// recorder is a syncer that writes down every call, and does what do says.
type recorder struct {
	t  testing.TB
	mu sync.Mutex
	// do decides how a call goes; nil: it succeeds at once.
	do     func(ctx context.Context, c recorded) (terminal bool, err error)
	calls  []recorded
	active map[types.UID]bool
	ends   map[types.UID]time.Time
}

type recorded struct {
	kind  Call
	uid   types.UID
	work  Work
	start time.Time
	n     int // the how manieth call of this kind for this UID
}

func newRecorder(t testing.TB) *recorder {
	return &recorder{t: t, active: map[types.UID]bool{}, ends: map[types.UID]time.Time{}}
}

func (r *recorder) record(ctx context.Context, c recorded) (bool, error) {
	r.mu.Lock()
	if r.active[c.uid] {
		r.t.Errorf("INV-1: %s of %s overlaps another call", c.kind, c.uid)
	}
	if c.work.ActedAt.Before(r.ends[c.uid]) {
		r.t.Errorf("INV-16: %s of %s", c.kind, c.uid)
	}
	r.active[c.uid] = true
	for _, other := range r.calls {
		if other.kind == c.kind && other.uid == c.uid {
			c.n++
		}
	}
	c.n++
	c.start = time.Now()
	r.calls = append(r.calls, c)
	do := r.do
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.active[c.uid] = false
		r.ends[c.uid] = time.Now()
		r.mu.Unlock()
	}()
	if do == nil {
		return false, nil
	}
	return do(ctx, c)
}

func (r *recorder) SyncPod(ctx context.Context, w Work) (bool, error) {
	return r.record(ctx, recorded{kind: CallSyncPod, uid: w.Pod.UID, work: w})
}

func (r *recorder) SyncTerminatingPod(ctx context.Context, w Work) error {
	_, err := r.record(ctx, recorded{kind: CallSyncTerminatingPod, uid: w.Pod.UID, work: w})
	return err
}

func (r *recorder) SyncTerminatedPod(ctx context.Context, w Work) error {
	_, err := r.record(ctx, recorded{kind: CallSyncTerminatedPod, uid: w.Pod.UID, work: w})
	return err
}

func (r *recorder) SyncTerminatingOrphan(ctx context.Context, p RuntimePod, actedAt time.Time) error {
	_, err := r.record(ctx, recorded{kind: CallSyncTerminatingOrphan, uid: p.UID, work: Work{ActedAt: actedAt}})
	return err
}

// of returns the calls for one UID so far.
func (r *recorder) of(uid string) []recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	var calls []recorded
	for _, c := range r.calls {
		if string(c.uid) == uid {
			calls = append(calls, c)
		}
	}
	return calls
}

// kinds returns what was called for one UID so far.
func (r *recorder) kinds(uid string) []Call {
	kinds := []Call{}
	for _, c := range r.of(uid) {
		kinds = append(kinds, c.kind)
	}
	return kinds
}

// last returns the latest call for a UID.
func (r *recorder) last(uid string) recorded {
	calls := r.of(uid)
	require.NotEmpty(r.t, calls)
	return calls[len(calls)-1]
}

var (
	syncPod     = CallSyncPod
	terminating = CallSyncTerminatingPod
)

// bubble is running workers with a recorder, in a synctest bubble.
type bubble struct {
	testing.TB
	*Workers
	rec  *recorder
	stop context.CancelFunc
	ran  chan error
}

// inBubble runs f with workers that run, and stops them afterwards.
func inBubble(t *testing.T, cfg Config, f func(b *bubble)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{TB: t, rec: newRecorder(t), ran: make(chan error, 1)}
		if cfg.Syncer == nil {
			cfg.Syncer = b.rec
		}
		if cfg.Jitter == nil {
			cfg.Jitter = func() float64 { return 0 }
		}
		var err error
		b.Workers, err = New(cfg)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		b.stop = cancel
		go func() { b.ran <- b.Run(ctx) }()
		synctest.Wait()
		f(b)
		cancel()
		require.NoError(t, <-b.ran)
	})
}

func (b *bubble) send(updates ...Update) {
	b.Helper()
	for _, u := range updates {
		require.NoError(b, b.UpdatePod(u))
	}
	synctest.Wait()
}

func (b *bubble) known(desired ...*v1.Pod) map[types.UID]KnownPod {
	known := b.SyncKnownPods(desired)
	synctest.Wait()
	return known
}

func (b *bubble) pass(d time.Duration) {
	time.Sleep(d) // the bubble's clock
	synctest.Wait()
}

func (b *bubble) is(uid string, s State) {
	b.Helper()
	require.Equal(b, s, b.State(types.UID(uid)).State)
}

func (b *bubble) called(uid string, kinds ...Call) {
	b.Helper()
	require.Equal(b, append([]Call{}, kinds...), b.rec.kinds(uid))
}

// untilCancelled blocks like a well-behaved call.
func untilCancelled(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
