package podworkerstest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// Recorder records all events between Workers and their PodSyncer, checks them against the rules
// of the lifecycle, and can make calls fail. Use Record. It is safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	syncer  podworkers.PodSyncer
	trace   Trace
	checker *Checker
	scripts map[scripted][]Outcome
	inside  map[types.UID]podworkers.Call // running calls, as the syncer sees them
	copies  map[*v1.Pod]*v1.Pod           // of pods passed to the syncer (INV-20)
	views   views
}

// scripted identifies the calls of an outcome. An empty UID means all pods.
type scripted struct {
	uid  types.UID
	call podworkers.Call
}

// defaultCancelLimit is the default of CancelLimit. A longer call outlasts the default of
// podworkers.Config.ShutdownTimeout.
const defaultCancelLimit = 10 * time.Second

// Record puts a Recorder around cfg.Syncer, in cfg. Without a syncer, calls follow On and
// otherwise succeed at once. Call it right before podworkers.New. Each New needs its own
// Recorder.
func Record(cfg *podworkers.Config) *Recorder {
	r := &Recorder{
		syncer: cfg.Syncer, checker: NewChecker(), scripts: map[scripted][]Outcome{},
		inside: map[types.UID]podworkers.Call{}, copies: map[*v1.Pod]*v1.Pod{}, views: views{pods: map[types.UID]*history{}},
	}
	r.checker.CancelLimit = defaultCancelLimit
	orphans, able := cfg.Syncer.(podworkers.OrphanSyncer)
	cfg.Syncer = recordingSyncer{r}
	if able || r.syncer == nil {
		cfg.Syncer = recordingOrphanSyncer{recordingSyncer{r}, orphans}
	}
	tell := cfg.OnTrace
	cfg.OnTrace = func(e podworkers.TraceEvent) {
		r.event(e)
		if tell != nil {
			tell(e)
		}
	}
	return r
}

// On replaces the next calls of one kind: one outcome per call, and the last one for all further
// calls. A nil outcome calls the syncer. An empty uid applies to every pod without its own
// outcomes. Without outcomes, On restores the calls of the syncer.
func (r *Recorder) On(uid types.UID, call podworkers.Call, outcomes ...Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scripts[scripted{uid, call}] = slices.Clone(outcomes)
}

// CancelLimit makes Check report calls that return later than d after their cancellation.
// Default: 10 s; 0 means unlimited. Calls replaced by On are exempt.
func (r *Recorder) CancelLimit(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checker.CancelLimit = d
}

// Trace returns the events so far.
func (r *Recorder) Trace() Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.trace)
}

// Calls returns the calls for one pod so far.
func (r *Recorder) Calls(uid types.UID) []podworkers.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var calls []podworkers.Call
	for _, e := range r.trace {
		if e.Kind == podworkers.TraceStart && e.UID == uid {
			calls = append(calls, e.Call)
		}
	}
	return calls
}

// Check returns all violations so far, joined and with the last lines of the trace of their
// pods, or nil. With workers it also checks their state of each pod. With nil, no call may be
// running: Run has ended, or synctest.Wait has returned.
func (r *Recorder) Check(workers Workers) error {
	r.checkIdle(forgottenBy(workers))
	for try := 0; workers != nil && try < 1000; try++ {
		before := r.events()
		pods := workers.Pods() // under the lock of the workers, which also guards events
		if r.compare(pods, before) {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if workers == nil {
		r.checker.Settle(time.Now())
	}
	err := errors.Join(r.checker.Err(), r.viewErrors())
	if err == nil {
		return nil
	}
	return &recordedError{err, r.lastLines()}
}

// forgottenBy returns a function that reports whether the workers have no state of a pod. Without
// workers it returns false.
func forgottenBy(workers Workers) func(types.UID) bool {
	if workers == nil {
		return func(types.UID) bool { return false }
	}
	pods := map[types.UID]bool{}
	for _, p := range workers.Pods() {
		pods[p.UID] = true
	}
	return func(uid types.UID) bool { return !pods[uid] }
}

// recordedError is a set of violations with the trace before them.
type recordedError struct {
	error
	trace string
}

// Error implements error.
func (e *recordedError) Error() string { return e.error.Error() + "\n\n" + e.trace }

// Unwrap returns the violations.
func (e *recordedError) Unwrap() error { return e.error }

// lastLines returns the last lines of the trace of each pod with a violation, up to it. The
// caller holds mu.
func (r *Recorder) lastLines() string {
	const lines = 12
	var b strings.Builder
	seen := map[types.UID]bool{}
	for _, v := range r.checker.broken {
		if seen[v.UID] {
			continue
		}
		seen[v.UID] = true
		var of []string
		p := newPrinter()
		for _, e := range r.trace {
			at := p.since(e.At)
			if !v.At.IsZero() && e.At.After(v.At) {
				break
			}
			if e.UID == v.UID || e.UID == "" && e.Kind != podworkers.TraceDone {
				of = append(of, fmt.Sprintf("  %-8s %s", at, p.text(e)))
			}
		}
		fmt.Fprintf(&b, "The last events of %s:\n%s\n", v.subject(), strings.Join(of[max(0, len(of)-lines):], "\n"))
	}
	return b.String()
}

func (r *Recorder) events() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.trace)
}

// compare checks the workers' state of each pod. It returns false if events have occurred since.
func (r *Recorder) compare(pods []podworkers.PodState, events int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.trace) != events {
		return false
	}
	r.checker.Settle(time.Now())
	r.checker.States(pods)
	return true
}

func (r *Recorder) event(e podworkers.TraceEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace = append(r.trace, e)
	r.viewUpdate(e)
	r.checker.Event(e)
	if pod := e.Update.Pod; pod != nil && r.copies[pod] == nil {
		r.copies[pod] = pod.DeepCopy()
	}
}

// call calls the syncer, or the scripted outcome.
func (r *Recorder) call(ctx context.Context, uid types.UID, kind podworkers.Call, w podworkers.Work, syncer Outcome) (bool, error) {
	outcome := r.enter(uid, kind)
	switch {
	case outcome == nil && r.syncer == nil:
		outcome = Succeed
	case outcome == nil:
		outcome = syncer
	}
	defer r.leave(uid, kind, w.Pod)
	return r.watched(ctx, w, uid, kind, outcome)
}

func (r *Recorder) enter(uid types.UID, kind podworkers.Call) Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.inside[uid]; other != podworkers.CallNone {
		r.checker.report(Violation{Rule: "INV-1", UID: uid, At: time.Now(), What: kind.String() + " overlaps " + other.String()})
	}
	r.inside[uid] = kind
	r.checker.standIns[uid] = false
	for _, key := range []scripted{{uid, kind}, {"", kind}} {
		if outcomes := r.scripts[key]; len(outcomes) > 0 {
			if len(outcomes) > 1 {
				r.scripts[key] = outcomes[1:]
			}
			r.checker.standIns[uid] = outcomes[0] != nil
			return outcomes[0]
		}
	}
	return nil
}

func (r *Recorder) leave(uid types.UID, kind podworkers.Call, pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, uid)
	if before := r.copies[pod]; before != nil && !reflect.DeepEqual(before, pod) {
		r.checker.report(Violation{Rule: "INV-20", UID: uid, At: time.Now(), What: "the pod was changed, detected after " + kind.String()})
		r.copies[pod] = pod.DeepCopy()
	}
}

// recordingSyncer is the syncer that the workers call.
type recordingSyncer struct{ *Recorder }

// SyncPod implements podworkers.PodSyncer.
func (s recordingSyncer) SyncPod(ctx context.Context, w podworkers.Work) (bool, error) {
	return s.call(ctx, w.Pod.UID, podworkers.CallSyncPod, w, func(ctx context.Context, w podworkers.Work) (bool, error) {
		return s.syncer.SyncPod(ctx, w)
	})
}

// SyncTerminatingPod implements podworkers.PodSyncer.
func (s recordingSyncer) SyncTerminatingPod(ctx context.Context, w podworkers.Work) error {
	_, err := s.call(ctx, w.Pod.UID, podworkers.CallSyncTerminatingPod, w, func(ctx context.Context, w podworkers.Work) (bool, error) {
		return false, s.syncer.SyncTerminatingPod(ctx, w)
	})
	return err
}

// SyncTerminatedPod implements podworkers.PodSyncer.
func (s recordingSyncer) SyncTerminatedPod(ctx context.Context, w podworkers.Work) error {
	_, err := s.call(ctx, w.Pod.UID, podworkers.CallSyncTerminatedPod, w, func(ctx context.Context, w podworkers.Work) (bool, error) {
		return false, s.syncer.SyncTerminatedPod(ctx, w)
	})
	return err
}

// recordingOrphanSyncer is the recordingSyncer of a syncer that implements OrphanSyncer.
type recordingOrphanSyncer struct {
	recordingSyncer
	orphans podworkers.OrphanSyncer
}

// SyncTerminatingOrphan implements podworkers.OrphanSyncer.
func (s recordingOrphanSyncer) SyncTerminatingOrphan(ctx context.Context, o podworkers.RuntimePod, actedAt time.Time) error {
	w := podworkers.Work{ActedAt: actedAt}
	_, err := s.call(ctx, o.UID, podworkers.CallSyncTerminatingOrphan, w, func(ctx context.Context, w podworkers.Work) (bool, error) {
		return false, s.orphans.SyncTerminatingOrphan(ctx, o, w.ActedAt)
	})
	return err
}
