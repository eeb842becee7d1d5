package podworkers

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
)

// runningCall is a call with a goroutine.
type runningCall struct {
	call
	ctx   *workerContext
	began time.Time
}

// workerContext is the context of one pod's calls. It lasts from call to call until it is
// cancelled, so that a pod that syncs for months leaks no contexts. It has the values of Run's
// context but not its cancellation.
type workerContext struct {
	context.Context
	cancel context.CancelCauseFunc
	step   atomic.Pointer[step]
}

type step struct {
	text  string
	since time.Time
}

type workerContextKey struct{}

func newWorkerContext(base context.Context) *workerContext {
	ctx, cancel := context.WithCancelCause(base)
	return &workerContext{Context: ctx, cancel: cancel}
}

// Value implements context.Context.
func (c *workerContext) Value(key any) any {
	if key == (workerContextKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func (c *workerContext) currentStep() (string, time.Time) {
	if s := c.step.Load(); s != nil {
		return s.text, s.since
	}
	return "", time.Time{}
}

// SetStep sets PodState.Step ("pulling image x") for the running call until that call ends. ctx
// must be the call's context or derived from it; otherwise SetStep has no effect.
func SetStep(ctx context.Context, text string) {
	if c, ok := ctx.Value(workerContextKey{}).(*workerContext); ok {
		c.step.Store(&step{text: text, since: time.Now()})
	}
}

// start starts a call in a goroutine. The caller holds mu.
func (w *Workers) start(c call) {
	ctx := w.contexts[c.uid]
	if ctx == nil {
		ctx = w.newCtx()
		w.contexts[c.uid] = ctx
	}
	ctx.step.Store(nil)
	r := &runningCall{call: c, ctx: ctx, began: time.Now()}
	w.running[c.uid] = r
	w.calls.Go(c.kind.String(), func() { w.work(r) })
}

// dropContext cancels the pod's context; the next call gets a new one. The caller holds mu.
func (w *Workers) dropContext(uid types.UID, cause error) {
	if ctx := w.contexts[uid]; ctx != nil {
		ctx.cancel(cause)
		delete(w.contexts, uid)
	}
}

// work makes one call and records its end, also after a panic or runtime.Goexit.
func (w *Workers) work(r *runningCall) {
	res := result{callError: classify(errGoexit)}
	defer func() {
		w.reportCall(r, res.err)
		w.conclude(r, res)
	}()
	res = w.invoke(r)
}

// reportCall calls Config.OnCall after a call, before the pod's next one begins.
func (w *Workers) reportCall(r *runningCall, err error) {
	if w.cfg.OnCall == nil {
		return
	}
	done := CallDone{UID: r.uid, Call: r.kind, Type: r.work.Type, Pod: r.work.Pod, Seen: r.work.StartTime, Began: r.began, Ended: time.Now(), Err: err}
	if panicked := run.Guard("Config.OnCall", func() error { w.cfg.OnCall(done); return nil }); panicked != nil {
		w.log.Error("a callback panicked", "err", panicked, "stack", run.StackOf(panicked))
	}
}

// invoke calls the syncer. An error whose methods panic counts as a panic of the syncer.
func (w *Workers) invoke(r *runningCall) (res result) {
	panicked := run.Guard("the syncer", func() error {
		terminal, err := w.callSyncer(r)
		res = result{terminal, classify(err)}
		return nil
	})
	if panicked != nil {
		return result{callError: classify(panicked)}
	}
	return res
}

func (w *Workers) callSyncer(r *runningCall) (terminal bool, err error) {
	ctx, end := w.span(r)
	err = errGoexit // unless it returns
	defer func() { end(err) }()
	switch r.kind {
	case CallSyncPod:
		return w.cfg.Syncer.SyncPod(ctx, r.work)
	case CallSyncTerminatingPod:
		return false, w.cfg.Syncer.SyncTerminatingPod(ctx, r.work)
	case CallSyncTerminatingOrphan:
		return false, w.orphans.SyncTerminatingOrphan(ctx, r.orphan, r.work.ActedAt)
	case CallSyncTerminatedPod:
		return false, w.cfg.Syncer.SyncTerminatedPod(ctx, r.work)
	}
	return false, nil
}

// span starts the call's span if Config.Span is set.
func (w *Workers) span(r *runningCall) (context.Context, func(error)) {
	if w.cfg.Span == nil {
		return r.ctx, func(error) {}
	}
	namespace, name := r.orphan.Namespace, r.orphan.Name
	if pod := r.work.Pod; pod != nil {
		namespace, name = pod.Namespace, pod.Name
	}
	attributes := []slog.Attr{
		slog.String("k8s.pod.uid", string(r.uid)), slog.String("k8s.pod", namespace+"/"+name),
		slog.String("k8s.pod.name", name), slog.String("k8s.namespace.name", namespace),
	}
	if r.kind == CallSyncPod {
		attributes = append(attributes, slog.String("k8s.pod.update_type", string(r.work.Type)))
	}
	return w.cfg.Span(r.ctx, "s"+strings.TrimPrefix(r.kind.String(), "S"), attributes...)
}

func (w *Workers) conclude(r *runningCall, res result) {
	cause := context.Cause(r.ctx)
	w.mu.Lock()
	delete(w.running, r.uid)
	before := w.podState(r.uid).LastError
	now := time.Now()
	w.trace(TraceEvent{At: now, Kind: TraceEnd, UID: r.uid, Call: r.kind, Terminal: res.terminal, Err: res.err})
	w.m.complete(r.uid, r.gen, res, now)
	state := w.podState(r.uid)
	w.apply(now)
	w.mu.Unlock()
	if res.err != nil {
		again := before != nil && before.Error() == res.err.Error()
		w.logFailure(r, failure{callError: res.callError, cause: cause, again: again}, state)
	}
}

type failure struct {
	callError
	// cause is the cancellation cause of the call's context, or nil.
	cause error
	// again is true if the previous call failed with the same error.
	again bool
}

func (w *Workers) logFailure(r *runningCall, f failure, s PodState) {
	err, cause := f.err, f.cause
	log := w.log.With("call", r.kind.String(), "pod", s.Namespace+"/"+s.Name, "podUID", r.uid, "err", err)
	if p, ok := err.(*PanicError); ok {
		log.Error("the syncer panicked", "stack", string(p.Stack))
		return
	}
	if cause != nil && f.cancelled {
		log.Debug("call was cancelled", "cause", cause)
		return
	}
	if s.NextRetry.IsZero() {
		log = log.With("nextRetry", "now")
	} else {
		log = log.With("nextRetry", s.NextRetry)
	}
	if !f.notBefore.IsZero() {
		log.Debug("call will be retried after its back-off")
		return
	}
	if f.again { // logged before; PodState shows that it continues
		log.Debug("call failed again")
		return
	}
	log.Error("call failed")
}
