package podworkerstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// Running tells what really runs of a pod at this moment: the ID of each container,
// or machine; another one after a restart. plegtest.RunningIDs makes one of any
// pleg.Runtime.
type Running func(uid types.UID) ([]string, error)

// looker compares what runs of each pod with what the syncer says of it. The
// Recorder's lock is held for all but running.
type looker struct {
	running Running
	// after is what ran at the end of the last call.
	after map[types.UID][]string
	// stopped: the last terminating call said that nothing runs any more.
	stopped map[types.UID]podworkers.Call
	errs    []error
}

// Running lets the Recorder look at what really runs of a pod: before and after each
// call of the syncer, when a call is cancelled, and at each Check. It finds a syncer
// that starts something after termination was requested, or outside of its calls,
// and one that says that all has stopped when it has not, as it does not wait for the
// end or answers an interrupted stop with nil. Call it before Run.
func (r *Recorder) Running(running Running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looker = &looker{running: running, after: map[types.UID][]string{}, stopped: map[types.UID]podworkers.Call{}}
}

// watched lets a call through with a look before, when it is cancelled, and after. The
// call learns that it is cancelled when that look is done, so that what it starts
// afterwards is told from what it had started.
func (r *Recorder) watched(ctx context.Context, w podworkers.Work, uid types.UID, kind podworkers.Call, outcome Outcome) (bool, error) {
	if r.looker == nil {
		return outcome(ctx, w)
	}
	r.outside(uid, "before "+kind.String())
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var ran []string
	looked := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(looked)
		ran, _ = r.look(uid)
		cancel(context.Cause(ctx))
	})
	terminal, err := outcome(own, w)
	cut := !stop()
	if cut {
		<-looked
	}
	now, known := r.look(uid)
	if !known {
		return terminal, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looker.after[uid] = now
	if kind != podworkers.CallSyncTerminatedPod {
		delete(r.looker.stopped, uid)
	}
	cause := context.Cause(ctx)
	switch kind {
	case podworkers.CallSyncPod:
		if started := added(now, ran); cut && errors.Is(cause, podworkers.ErrTerminationRequested) && len(started) > 0 {
			r.found("INV-5", uid, "SyncPod started %s after termination was requested", list(started))
		}
	case podworkers.CallSyncTerminatingPod, podworkers.CallSyncTerminatingOrphan:
		if err != nil {
			break
		}
		r.looker.stopped[uid] = kind
		switch {
		case len(now) == 0:
		case cut:
			r.found("INV-8", uid, "%s was interrupted (%v) and returned nil while this still runs: %s; an interrupted stop is an error", kind, cause, list(now))
		default:
			r.found("INV-8", uid, "%s returned nil while this still runs: %s; it has to wait for the end", kind, list(now))
		}
	}
	return terminal, err
}

// look asks what runs. known is false if that cannot be told.
func (r *Recorder) look(uid types.UID) (ids []string, known bool) {
	ids, err := r.looker.running(uid)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.looker.errs = append(r.looker.errs, fmt.Errorf("podworkerstest: what runs of pod %s cannot be told: %w", uid, err))
		return nil, false
	}
	return slices.Sorted(slices.Values(ids)), true
}

// outside finds what was started while no call was made.
func (r *Recorder) outside(uid types.UID, when string) {
	now, known := r.look(uid)
	r.mu.Lock()
	defer r.mu.Unlock()
	before, looked := r.looker.after[uid]
	if !known || !looked {
		return
	}
	started := added(now, before)
	if len(started) == 0 {
		return
	}
	r.looker.after[uid] = now
	if kind, ok := r.looker.stopped[uid]; ok {
		r.found("INV-8", uid, "%s was started after %s had said that all have stopped (seen %s)", list(started), kind, when)
		return
	}
	r.found("INV-1", uid, "%s was started outside of every call of the syncer, in a goroutine of its own (seen %s)", list(started), when)
}

// lookAround finds what was started of pods of which no call is in progress.
func (r *Recorder) lookAround() {
	r.mu.Lock()
	var idle []types.UID
	if r.looker != nil {
		for uid := range r.looker.after {
			if r.inside[uid] == podworkers.CallNone {
				idle = append(idle, uid)
			}
		}
	}
	r.mu.Unlock()
	for _, uid := range slices.Sorted(slices.Values(idle)) {
		r.outside(uid, "by Check")
	}
}

// found reports a violation. The lock is held.
func (r *Recorder) found(rule string, uid types.UID, format string, args ...any) {
	r.checker.report(Violation{Rule: rule, UID: uid, At: time.Now(), What: fmt.Sprintf(format, args...)})
}

// added returns what is in now and not in before.
func added(now, before []string) []string {
	return slices.DeleteFunc(slices.Clone(now), func(id string) bool { return slices.Contains(before, id) })
}

func list(ids []string) string { return strings.Join(ids, ", ") }
