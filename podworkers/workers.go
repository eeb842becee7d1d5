package podworkers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
)

// Workers runs one worker per pod. Use New. All methods are safe for concurrent use. Only Run
// and Kill block.
type Workers struct {
	cfg     Config
	orphans OrphanSyncer // nil: orphans are refused
	log     *slog.Logger

	wake     run.Signal    // the next timer is earlier than the current one
	notify   run.Signal    // notes is not empty
	stopping chan struct{} // closed when Run begins to end
	calls    run.Group     // the running calls

	mu       sync.Mutex
	m        *machine
	started  bool
	timer    time.Time // of Run's timer, zero: not set
	newCtx   func() *workerContext
	contexts map[types.UID]*workerContext
	running  map[types.UID]*runningCall
	notes    []note
}

// New returns Workers that accept updates at once and make calls during Run.
func New(cfg Config) (*Workers, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	policy := retryPolicy{resync: cfg.ResyncInterval, backoff: cfg.RetryBackoff, network: networkRetry, jitter: cfg.Jitter}
	orphans, _ := cfg.Syncer.(OrphanSyncer)
	return &Workers{
		cfg: cfg, orphans: orphans, log: cfg.Logger,
		wake: run.NewSignal(), notify: run.NewSignal(),
		stopping: make(chan struct{}),
		m:        newMachine(policy, cfg.OnDue != nil),
		contexts: map[types.UID]*workerContext{}, running: map[types.UID]*runningCall{},
	}, nil
}

// UpdatePod accepts an update and returns at once. The last of several pending updates counts,
// but a request to terminate is never lost. Errors wrap ErrInvalidUpdate or ErrAgentStopping;
// the update then has no effect.
func (w *Workers) UpdatePod(u Update) error {
	if err := w.validate(u); err != nil {
		return err
	}
	stopped := w.terminalPodStopped(u)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m.isShut {
		return fmt.Errorf("podworkers: %s: %w", describe(u), ErrAgentStopping)
	}
	now := time.Now()
	w.trace(TraceEvent{At: now, Kind: TraceUpdate, UID: u.uid(), Update: u, Stopped: stopped})
	w.m.update(u, stopped, now)
	w.apply(now)
	return nil
}

func (w *Workers) validate(u Update) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("podworkers: %w: %s: %s", ErrInvalidUpdate, describe(u), fmt.Sprintf(format, args...))
	}
	switch u.Type {
	case UpdateCreate, UpdateUpdate, UpdateSync, UpdateKill:
	default:
		return refuse("Type: %q is not one of %s, %s, %s, %s", u.Type, UpdateCreate, UpdateUpdate, UpdateSync, UpdateKill)
	}
	switch {
	case u.Kill != nil && u.Type != UpdateKill:
		return refuse("Kill: allowed only with Type %q, not %q", UpdateKill, u.Type)
	case u.Pod == nil && u.RuntimePod == nil:
		return refuse("Pod: is required without RuntimePod")
	case u.Pod != nil && u.Pod.UID == "":
		return refuse("Pod.UID: is empty")
	case u.Pod != nil && u.Pod.Name == "":
		return refuse("Pod.Name: is empty")
	case u.Pod != nil && u.Pod.Namespace == "":
		return refuse("Pod.Namespace: is empty")
	case u.Pod != nil && u.RuntimePod != nil && u.RuntimePod.UID != u.Pod.UID:
		return refuse("RuntimePod.UID: %q differs from Pod.UID", u.RuntimePod.UID)
	case u.Pod != nil && podfacts.IsMirror(u.Pod):
		return refuse("Pod: is a mirror pod; use its static pod")
	case u.Pod != nil:
		return nil
	case u.RuntimePod.UID == "":
		return refuse("RuntimePod.UID: is empty")
	case u.RuntimePod.Name == "":
		return refuse("RuntimePod.Name: is empty")
	case u.RuntimePod.Namespace == "":
		return refuse("RuntimePod.Namespace: is empty")
	case u.Type != UpdateKill:
		return refuse("Type: a pod without a spec can only be killed, not %q", u.Type)
	case w.orphans == nil:
		return refuse("RuntimePod: the syncer does not implement OrphanSyncer")
	}
	return nil
}

// terminalPodStopped calls Config.TerminalPodStopped, without the lock, for a new pod with a
// final phase.
func (w *Workers) terminalPodStopped(u Update) bool {
	if w.cfg.TerminalPodStopped == nil || u.Pod == nil || !podfacts.IsTerminalPhase(u.Pod.Status.Phase) {
		return false
	}
	w.mu.Lock()
	_, known := w.m.records[u.Pod.UID]
	w.mu.Unlock()
	return !known && w.cfg.TerminalPodStopped(u.Pod.UID)
}

// SyncKnownPods sets the complete list of desired pods. It terminates the pods that are missing
// in it, and forgets them once they are finished. Call it every few seconds: for undesired pods
// it is the only retry of failed calls, at the earliest 1 s after the failure. More frequent
// calls are allowed.
//
// It returns the pods that still have a worker. The caller sends UpdateCreate for desired pods
// that are missing in the result: their UID was in use and is free now.
func (w *Workers) SyncKnownPods(desired []*v1.Pod) map[types.UID]KnownPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.cfg.OnTrace != nil {
		w.trace(TraceEvent{At: now, Kind: TraceKnown, Desired: uidsOf(desired)})
	}
	known := w.m.syncKnownPods(desired, now)
	w.apply(now)
	return known
}

// State returns the state of one pod. A pod without a worker is in StateUnknown.
func (w *Workers) State(uid types.UID) PodState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.podState(uid)
}

// Pods returns the state of every pod with a worker, in no particular order. It includes pods
// that were deleted by force and are still terminating.
func (w *Workers) Pods() []PodState {
	w.mu.Lock()
	defer w.mu.Unlock()
	pods := make([]PodState, 0, len(w.m.records))
	for uid := range w.m.records {
		pods = append(pods, w.podState(uid))
	}
	return pods
}

func (w *Workers) podState(uid types.UID) PodState {
	s := w.m.podState(uid)
	if r := w.running[uid]; r != nil {
		s.Step, s.StepSince = r.ctx.currentStep()
	}
	return s
}

// MirrorTerminating reports whether the static pod with this full name ("<name>_<namespace>") is
// terminating, so that its mirror pod is still needed.
func (w *Workers) MirrorTerminating(fullName string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.mirrorTerminating(fullName)
}

// Run makes calls until ctx is done. It then cancels every running call with the cause
// ErrAgentStopping, leaves the pods as they are, waits for the calls to return, and returns nil.
// If some do not return within Config.ShutdownTimeout, it returns an error that wraps
// ErrShutdownTimeout and lists them. The syncer's contexts have the values of ctx. A second Run
// returns ErrAlreadyRun.
func (w *Workers) Run(ctx context.Context) error {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(ErrAgentStopping)
	if err := w.open(ctx, base); err != nil {
		return err
	}
	var callbacks run.Group
	stopNotes := make(chan struct{})
	callbacks.Go("a callback of Config", func() { w.deliverNotes(stopNotes) })

	w.timerLoop(ctx)

	w.shut()
	cancel(ErrAgentStopping)
	end := time.Now().Add(w.cfg.ShutdownTimeout)
	w.calls.Wait(w.cfg.ShutdownTimeout)
	close(stopNotes)
	// At least 1 s for the callbacks, even if the calls took all the time.
	return w.leftovers(callbacks.Wait(max(time.Until(end), time.Second)))
}

// leftovers returns an error that lists the calls and callbacks that still run.
func (w *Workers) leftovers(callbacks []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for uid, r := range w.running {
		s := w.m.podState(uid)
		names = append(names, fmt.Sprintf("%s of pod %s/%s (%s) since %s", r.kind, s.Namespace, s.Name, uid, s.CallSince.Format(time.RFC3339)))
	}
	slices.Sort(names)
	names = append(names, callbacks...)
	return run.StillRunning("podworkers", w.cfg.ShutdownTimeout, names)
}

func (w *Workers) open(ctx, base context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return ErrAlreadyRun
	}
	w.started = true
	w.newCtx = func() *workerContext { return newWorkerContext(base) }
	if ctx.Err() == nil {
		now := time.Now()
		w.trace(TraceEvent{At: now, Kind: TraceRun})
		w.m.open(now)
		w.apply(now)
	}
	return nil
}

func (w *Workers) shut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace(TraceEvent{At: time.Now(), Kind: TraceStop})
	w.m.shut()
	close(w.stopping)
}

func (w *Workers) timerLoop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		var fire <-chan time.Time
		if next, ok := w.setTimer(); ok {
			timer.Reset(time.Until(next))
			fire = timer.C
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-fire:
			w.tick()
		}
	}
}

func (w *Workers) setTimer() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, ok := w.m.due.next()
	w.timer = next
	return next, ok
}

func (w *Workers) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.m.tick(now)
	w.apply(now)
}

// apply performs the effects of the machine. It does not block. The caller holds mu.
func (w *Workers) apply(now time.Time) {
	out := w.m.take()
	if w.cfg.OnTrace != nil {
		out.trace(now, w.cfg.OnTrace)
	}
	for _, c := range out.cancel {
		w.dropContext(c.uid, c.cause)
	}
	for _, uid := range out.release {
		w.dropContext(uid, errForgotten)
	}
	for _, done := range out.done {
		w.closeDone(done)
	}
	for _, c := range out.start {
		w.start(c)
	}
	for _, uid := range out.onDue {
		w.notes = append(w.notes, note{due: uid})
	}
	if w.cfg.OnTransition != nil {
		for _, move := range out.moves {
			w.notes = append(w.notes, note{move: move})
		}
	}
	if len(w.notes) > 0 {
		w.notify.Wake()
	}
	if next, ok := w.m.due.next(); ok && (w.timer.IsZero() || next.Before(w.timer)) {
		w.wake.Wake()
	}
}

// closeDone closes a caller's channel. A channel that the caller closed itself is logged and
// does not crash the process.
func (w *Workers) closeDone(done chan<- struct{}) {
	defer func() {
		if recover() != nil {
			w.log.Error("KillOptions.Done was closed already")
		}
	}()
	close(done)
}

func describe(u Update) string {
	switch {
	case u.Pod != nil:
		return fmt.Sprintf("%s of pod %s/%s (%s)", u.Type, u.Pod.Namespace, u.Pod.Name, u.Pod.UID)
	case u.RuntimePod != nil:
		return fmt.Sprintf("%s of orphan %s/%s (%s)", u.Type, u.RuntimePod.Namespace, u.RuntimePod.Name, u.RuntimePod.UID)
	default:
		return fmt.Sprintf("%s without a pod", u.Type)
	}
}
