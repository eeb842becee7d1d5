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

// Running returns the IDs of a pod's running containers or machines. A restart must change the
// ID. plegtest.RunningIDs returns a Running for a pleg.Runtime.
type Running func(uid types.UID) ([]string, error)

// runningCheck compares the running containers of each pod with the results of the syncer. The
// Recorder's lock guards all fields but running.
type runningCheck struct {
	running Running
	// after has the running IDs at the end of the last call.
	after map[types.UID][]string
	// stopped has pods whose last terminating call returned nil.
	stopped map[types.UID]podworkers.Call
	errs    []error
}

// Running makes the Recorder list the running containers of a pod: before and after each call of
// the syncer, when a call is cancelled, and at each Check. It finds a syncer that starts a
// container after termination was requested or outside of its calls, and one that reports a stop
// too early, because it does not wait for the end or returns nil from an interrupted stop. Call
// it before Run.
func (r *Recorder) Running(running Running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runningCheck = &runningCheck{running: running, after: map[types.UID][]string{}, stopped: map[types.UID]podworkers.Call{}}
}

// watched makes a call and lists the running containers before it, at its cancellation, and
// after it. The call's context is cancelled after that list is complete, so that later starts
// can be distinguished from earlier ones.
func (r *Recorder) watched(ctx context.Context, w podworkers.Work, uid types.UID, kind podworkers.Call, outcome Outcome) (bool, error) {
	if r.runningCheck == nil {
		return outcome(ctx, w)
	}
	r.outside(uid, "before "+kind.String())
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var ran []string
	listed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(listed)
		ran, _ = r.listRunning(uid)
		cancel(context.Cause(ctx))
	})
	terminal, err := outcome(own, w)
	cut := !stop()
	if cut {
		<-listed
	}
	now, known := r.listRunning(uid)
	if !known {
		return terminal, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runningCheck.after[uid] = now
	if kind != podworkers.CallSyncTerminatedPod {
		delete(r.runningCheck.stopped, uid)
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
		r.runningCheck.stopped[uid] = kind
		switch {
		case len(now) == 0:
		case cut:
			r.found("INV-8", uid, "%s was interrupted (%v) and returned nil while containers still run: %s; an interrupted stop must return an error", kind, cause, list(now))
		default:
			r.found("INV-8", uid, "%s returned nil while containers still run: %s; it must wait for them to stop", kind, list(now))
		}
	}
	return terminal, err
}

// listRunning returns the running IDs. known is false after an error.
func (r *Recorder) listRunning(uid types.UID) (ids []string, known bool) {
	ids, err := r.runningCheck.running(uid)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.runningCheck.errs = append(r.runningCheck.errs, fmt.Errorf("podworkerstest: list running containers of pod %s: %w", uid, err))
		return nil, false
	}
	return slices.Sorted(slices.Values(ids)), true
}

// outside finds starts that happened while no call ran.
func (r *Recorder) outside(uid types.UID, when string) {
	now, known := r.listRunning(uid)
	r.mu.Lock()
	defer r.mu.Unlock()
	before, listed := r.runningCheck.after[uid]
	if !known || !listed {
		return
	}
	started := added(now, before)
	if len(started) == 0 {
		return
	}
	r.runningCheck.after[uid] = now
	if kind, ok := r.runningCheck.stopped[uid]; ok {
		r.found("INV-8", uid, "%s was started after a successful %s (seen %s)", list(started), kind, when)
		return
	}
	r.found("INV-1", uid, "%s was started outside of all calls of the syncer (seen %s)", list(started), when)
}

// checkIdle finds starts of pods without a running call.
func (r *Recorder) checkIdle() {
	r.mu.Lock()
	var idle []types.UID
	if r.runningCheck != nil {
		for uid := range r.runningCheck.after {
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

// found reports a violation. The caller holds mu.
func (r *Recorder) found(rule string, uid types.UID, format string, args ...any) {
	r.checker.report(Violation{Rule: rule, UID: uid, At: time.Now(), What: fmt.Sprintf(format, args...)})
}

func added(now, before []string) []string {
	return slices.DeleteFunc(slices.Clone(now), func(id string) bool { return slices.Contains(before, id) })
}

func list(ids []string) string { return strings.Join(ids, ", ") }
