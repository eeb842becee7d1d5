package podworkers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
)

// Workers runs one worker per pod. Use New. All methods are safe for concurrent
// use, and none but Run and Kill blocks.
type Workers struct {
	cfg     Config
	orphans OrphanSyncer // nil: orphans are refused
	log     *slog.Logger

	wake     run.Signal    // the next timer is earlier than the one set
	notify   run.Signal    // notes is not empty
	stopping chan struct{} // closed when Run begins to end
	calls    run.Group     // the running calls

	mu       sync.Mutex
	m        *machine
	started  bool
	timer    time.Time // what Run's timer is set to, zero: nothing
	newCtx   func() *workerContext
	contexts map[types.UID]*workerContext
	running  map[types.UID]*runningCall
	notes    []note
}

// New returns Workers that accept updates at once and act on them in Run.
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

// UpdatePod takes an update and returns at once. Of updates that the pod's worker
// has not acted on yet the last one counts, but a request to terminate is never
// lost. Errors wrap ErrInvalidUpdate or ErrAgentStopping; nothing has changed then.
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
		return refuse("Kill: goes with Type %q only, not %q", UpdateKill, u.Type)
	case u.Pod == nil && u.RuntimePod == nil:
		return refuse("Pod: is required, or RuntimePod")
	case u.Pod != nil && u.Pod.UID == "":
		return refuse("Pod.UID: is empty")
	case u.Pod != nil && u.Pod.Name == "":
		return refuse("Pod.Name: is empty")
	case u.Pod != nil && u.Pod.Namespace == "":
		return refuse("Pod.Namespace: is empty")
	case u.Pod != nil && u.RuntimePod != nil && u.RuntimePod.UID != u.Pod.UID:
		return refuse("RuntimePod.UID: is %q; Pod is another one", u.RuntimePod.UID)
	case u.Pod != nil && podfacts.IsMirror(u.Pod):
		return refuse("Pod: is a mirror pod; its static pod is meant")
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
		return refuse("RuntimePod: the syncer is no OrphanSyncer")
	}
	return nil
}

// terminalPodStopped asks the owner, without the lock, about a pod that is new
// and has ended already.
func (w *Workers) terminalPodStopped(u Update) bool {
	if w.cfg.TerminalPodStopped == nil || u.Pod == nil || !podfacts.IsTerminalPhase(u.Pod.Status.Phase) {
		return false
	}
	w.mu.Lock()
	_, known := w.m.records[u.Pod.UID]
	w.mu.Unlock()
	return !known && w.cfg.TerminalPodStopped(u.Pod.UID)
}

// SyncKnownPods tells which pods are desired, all of them. Pods that are not are
// terminated, and forgotten once they are finished. It is to be called every few
// seconds: for pods that are not desired it is what repeats a failed call, 1 s after
// that at the earliest. It may be called more often.
//
// It returns the pods that still have a worker. The caller sends UpdateCreate for
// desired pods that are missing in it: their UID was in use and is free now.
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

// State returns the state of one pod, in StateUnknown if there is none.
func (w *Workers) State(uid types.UID) PodState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.podState(uid)
}

// Pods returns the state of every pod that has a worker, in no particular order.
// It includes those that were deleted by force and are still terminating.
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

// MirrorTerminating tells whether the static pod with this full name
// ("<name>_<namespace>") is terminating, so that its mirror pod is still needed.
func (w *Workers) MirrorTerminating(fullName string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.mirrorTerminating(fullName)
}

// Run lets the workers work until ctx is done. Then it cancels every running call
// with the cause ErrAgentStopping, leaves the pods as they are, and waits for the
// calls to return. Calls that do not within Config.ShutdownTimeout are named in
// the error, which wraps ErrShutdownTimeout. ctx hands its values to the syncer.
// A second Run returns ErrAlreadyRun.
func (w *Workers) Run(ctx context.Context) error {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(ErrAgentStopping)
	if err := w.open(ctx, base); err != nil {
		return err
	}
	var callbacks run.Group
	stopNotes := make(chan struct{})
	callbacks.Go("a callback of Config", func() { w.tellOwner(stopNotes) })

	w.timerLoop(ctx)

	w.shut()
	cancel(ErrAgentStopping)
	end := time.Now().Add(w.cfg.ShutdownTimeout)
	w.calls.Wait(w.cfg.ShutdownTimeout)
	close(stopNotes)
	// A second for the callbacks if the calls used up all the time.
	return w.leftovers(callbacks.Wait(max(time.Until(end), time.Second)))
}

// leftovers names what still runs: the calls, and these callbacks.
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
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("podworkers: %w (%v): %s", ErrShutdownTimeout, w.cfg.ShutdownTimeout, strings.Join(names, ", "))
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

// timerLoop wakes the pods that are due.
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

// apply does what the machine decided. The lock is held; nothing here blocks.
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
	for _, uid := range out.ask {
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

// closeDone closes a channel that a caller handed in. If the caller closed it,
// that is the caller's mistake and must not end the process.
func (w *Workers) closeDone(done chan<- struct{}) {
	defer func() {
		if recover() != nil {
			w.log.Error("KillOptions.Done was closed by somebody else")
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
		return fmt.Sprintf("%s of no pod", u.Type)
	}
}
