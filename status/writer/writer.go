package writer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status"
)

var (
	// ErrAlreadyRun is returned by every Run but the first.
	ErrAlreadyRun = errors.New("writer: Run was called before")
	// ErrShutdownTimeout is wrapped by Run's error when calls of a sink ignore their
	// context.
	ErrShutdownTimeout = errors.New("still running after the shutdown timeout")
	// ErrNoSink is wrapped by the error of Flush when Config names no such sink.
	ErrNoSink = errors.New("no such sink")
)

// Writer is the memory of the newest status of each pod, and writes them to Sinks.
// Use New. All methods may be called at any time, before, during and after Run,
// from several goroutines; none of them but Flush waits for a sink.
//
// Pods are known by their UIDs, static pods by their own; a mirror's UID stands
// for the static pod's.
type Writer struct {
	cfg     Config
	limits  limits
	targets []*target

	mu      sync.Mutex
	entries map[types.UID]*entry
	ran     bool
}

// entry is what the writer has of a pod.
type entry struct {
	uid types.UID
	pod *v1.Pod
	// status is the newest one, shared and never changed; nil: none.
	status *v1.PodStatus
	// set: the status was not only restored.
	set bool
	// leaving: nobody wants to know of the pod any more, but not every sink has
	// been told yet how it ended.
	leaving bool
	// deliveries are what is to be done about it, one for each target.
	deliveries []*delivery
}

// New returns a Writer. Nothing is written before Run, but by Flush.
func New(cfg Config) (*Writer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Writer{
		cfg:     cfg,
		limits:  limits{first: cfg.RetryBackoff, longest: cfg.Resync, absent: 6 * cfg.Resync},
		entries: map[types.UID]*entry{},
	}
	for i, s := range cfg.Sinks {
		w.targets = append(w.targets, newTarget(w, i, s))
	}
	return w, nil
}

// Run writes what is set until the context ends, then ends the calls in progress
// and returns nil. Receivers are handed what they do not have yet first. If calls do
// not return within ShutdownTimeout, the error wraps ErrShutdownTimeout and names
// their pods. A second Run is ErrAlreadyRun.
func (w *Writer) Run(ctx context.Context) error {
	w.mu.Lock()
	again := w.ran
	w.ran = true
	w.mu.Unlock()
	if again {
		return ErrAlreadyRun
	}
	parts := []func(context.Context) error{func(ctx context.Context) error { <-ctx.Done(); return nil }}
	for _, t := range w.targets {
		parts = append(parts, t.run)
	}
	return run.All(ctx, parts...)
}

// Get returns the newest status of a pod, nil when there is none. It is shared and
// must not be changed.
func (w *Writer) Get(uid types.UID) *v1.PodStatus {
	uid = w.translate(uid)
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entries[uid]; e != nil && !e.leaving {
		return e.status
	}
	return nil
}

// Pods returns every pod that has a status, as it was handed in last. The pods are
// shared and must not be changed.
func (w *Writer) Pods() map[types.UID]*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[types.UID]*v1.Pod, len(w.entries))
	for uid, e := range w.entries {
		if !e.leaving {
			out[uid] = e.pod
		}
	}
	return out
}

// Set states the status of a pod. It is copied, and Normalized. What the status
// before knows stays where it has to (status.Follow). The one before is the one that
// was set last or restored, else the mirror's, else the pod's own.
//
// A status in which a container that has ended for good has not
// (status.CheckTransition) is refused with a line in the log. One that says the same
// as before is not written; of a pod that is to be deleted, what is left to do is
// looked at anew.
func (w *Writer) Set(pod *v1.Pod, s v1.PodStatus) {
	s = *s.DeepCopy()
	w.update(pod, pod.DeletionTimestamp != nil, func(*entry, *v1.PodStatus) v1.PodStatus { return s })
}

// Terminate states that nothing is left of a pod, neither containers nor anything
// that they held (status.Finalize). A pod that is to be deleted is removed from a
// sink once that has accepted a terminal phase of it.
func (w *Writer) Terminate(pod *v1.Pod) {
	w.update(pod, true, func(e *entry, before *v1.PodStatus) v1.PodStatus {
		judged := *pod
		judged.Status = *w.shown(e, pod, before)
		for _, d := range e.deliveries {
			d.finished = true
		}
		return status.Finalize(&judged, *before, time.Now())
	})
}

// shown is the status by which the end of a pod is judged: the one that the first
// sink is known to have, else the pod's own; before where there is no other account
// of the pod. w.mu is held.
func (w *Writer) shown(e *entry, pod *v1.Pod, before *v1.PodStatus) *v1.PodStatus {
	shown := before
	for _, d := range e.deliveries {
		switch {
		case d.receives:
		case d.base != nil:
			return d.base.status
		default:
			shown = &pod.Status
		}
	}
	return shown
}

// Change replaces the status of a pod by what next makes of it; a pod without one
// stays so. next is called under a lock: it must be quick and not call back. The
// status that it is given is shared: it must not be changed, but what is returned
// may share memory with it. For the rest it is as with Set.
func (w *Writer) Change(uid types.UID, next func(v1.PodStatus) v1.PodStatus) {
	w.edit(uid, func(_ *v1.Pod, s v1.PodStatus) (v1.PodStatus, bool) { return next(s), true })
}

// SetContainerReadiness states whether a container is ready, and what follows from
// that for the pod, at once; see status.WithContainerReady. Of a pod or container
// that is not known, and when it changes nothing, it does nothing.
func (w *Writer) SetContainerReadiness(uid types.UID, containerID string, ready bool) {
	w.edit(uid, func(pod *v1.Pod, s v1.PodStatus) (v1.PodStatus, bool) {
		return status.WithContainerReady(pod, s, containerID, ready, time.Now())
	})
}

// SetContainerStartup states whether a container has started; see
// status.WithContainerStarted.
func (w *Writer) SetContainerStartup(uid types.UID, containerID string, started bool) {
	w.edit(uid, func(pod *v1.Pod, s v1.PodStatus) (v1.PodStatus, bool) {
		return status.WithContainerStarted(pod, s, containerID, started, time.Now())
	})
}

// SetProbed shows at once what a readiness or startup probe has found: a
// probe.Config.Changed that wakes the pod's worker, too, needs nothing more.
// Receivers are handed the status whatever the probe: one that keeps results of
// probes beside it has another one to keep.
func (w *Writer) SetProbed(c probe.Change) {
	passed := c.Result == probe.Success
	switch c.Type {
	case probe.Readiness:
		w.SetContainerReadiness(c.UID, c.ContainerID, passed)
	case probe.Startup:
		w.SetContainerStartup(c.UID, c.ContainerID, passed)
	case probe.Liveness: // restarts containers, and says nothing in a status
	}
	uid, now := w.translate(c.UID), time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entries[uid]; e != nil && e.set {
		for _, d := range e.deliveries {
			if d.receives {
				d.again(now)
				d.target.enqueue(d)
			}
		}
	}
}

// Restore states the status that a pod had in an earlier life of the agent. It is
// what the next one follows from, and what Get returns until then, but is not
// written, and does nothing for a pod that has a status already.
func (w *Writer) Restore(pod *v1.Pod, s v1.PodStatus) {
	s = status.Normalize(pod, *s.DeepCopy())
	uid := w.translate(pod.UID)
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entry(uid); e.status == nil {
		e.hold(pod, &s)
	}
}

// Forget drops a pod at once, also what sinks have not been told of it.
func (w *Writer) Forget(uid types.UID) {
	uid = w.translate(uid)
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entries[uid]; e != nil {
		w.drop(e)
	}
}

// Prune drops every pod for which wanted says no: Get and Pods do not return them
// any more. What a sink has not been told of such a pod is still written, unless
// it has no such pod; then it is dropped altogether. wanted is called without
// locks.
func (w *Writer) Prune(wanted func(types.UID) bool) {
	w.mu.Lock()
	uids := slices.Collect(maps.Keys(w.entries))
	w.mu.Unlock()
	uids = slices.DeleteFunc(uids, wanted)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uid := range uids {
		if e := w.entries[uid]; e != nil {
			e.leaving = true
			w.dropIfTold(e)
		}
	}
}

// Observe takes in a pod as it was seen at a sink, such as by a watch: mirrors,
// and pods that are not static. It should be called for each change that is seen.
// What somebody else has changed of the node agent's part is written anew at the
// next Resync; that a pod is to be deleted is heeded at once. A pod without a
// status is not remembered, a sink that Config does not name is ignored. pod must
// not be changed afterwards.
func (w *Writer) Observe(sink string, pod *v1.Pod) {
	if t := w.target(sink); t != nil && t.receiver == nil {
		t.observe(pod)
	}
}

// Flush writes what a sink does not have of a pod now, and returns when that is
// done: it waits neither for Run nor for a pause after failures to end. A Receiver
// is handed the newest status in any case. The error is what the write came to; it
// is logged, and repeated by Run, as that of any other write. A pod of which nothing
// is to be written is none.
func (w *Writer) Flush(ctx context.Context, sink string, uid types.UID) error {
	t := w.target(sink)
	if t == nil {
		return fmt.Errorf("writer: %w: %q", ErrNoSink, sink)
	}
	return t.flush(ctx, w.translate(uid))
}

func (w *Writer) target(name string) *target {
	for _, t := range w.targets {
		if t.name == name {
			return t
		}
	}
	return nil
}

// update sets the status that next makes of the one before.
func (w *Writer) update(pod *v1.Pod, forced bool, next func(*entry, *v1.PodStatus) v1.PodStatus) {
	uid := w.translate(pod.UID)
	before := &pod.Status
	if w.cfg.Mirror != nil && podfacts.IsStatic(pod) {
		if mirror := w.cfg.Mirror(uid); mirror != nil {
			before = &mirror.Status
		}
	}
	w.mu.Lock()
	e := w.entry(uid)
	if e.status != nil {
		before = e.status
	}
	c := w.store(e, pod, before, next(e, before), forced)
	w.mu.Unlock()
	w.tell(uid, c)
}

// edit changes a status that is there.
func (w *Writer) edit(uid types.UID, next func(*v1.Pod, v1.PodStatus) (v1.PodStatus, bool)) {
	uid = w.translate(uid)
	w.mu.Lock()
	var c change
	if e := w.entries[uid]; e != nil && !e.leaving {
		if s, ok := next(e.pod, *e.status); ok {
			c = w.store(e, e.pod, e.status, s, false)
		}
	}
	w.mu.Unlock()
	w.tell(uid, c)
}

// store makes s the newest status of a pod. w.mu is held.
func (w *Writer) store(e *entry, pod *v1.Pod, before *v1.PodStatus, s v1.PodStatus, forced bool) (c change) {
	if err := status.CheckTransition(pod, before, &s); err != nil {
		w.cfg.Logger.Error("status refused", "pod", podfacts.FullName(pod), "uid", pod.UID, "err", err)
		if e.status != nil {
			return c
		}
		// Nothing was said of it yet: what is known stays.
		s = *before
	}
	now := time.Now()
	s = status.Normalize(pod, status.Follow(*before, s, now))
	alike := e.status != nil && status.Equal(e.status, &s)
	if alike && e.set && !forced {
		e.hold(pod, &s) // what others own may have changed
		return c
	}
	c.happened = !alike || !e.set
	if e.status != nil {
		c.ended = newlyTerminated(e.status, &s)
	}
	e.hold(pod, &s)
	e.leaving, e.set = false, true
	for _, d := range e.deliveries {
		if d.gone {
			d.slot = slot{receives: d.receives}
		}
		d.set(pod, &s, now)
		d.target.enqueue(d)
	}
	return c
}

// hold makes s the newest status, without having it written.
func (e *entry) hold(pod *v1.Pod, s *v1.PodStatus) {
	e.pod, e.status = pod, s
	for _, d := range e.deliveries {
		d.pod, d.status = pod, s
	}
}

// entry returns a pod's entry, a new one if it has none. w.mu is held.
func (w *Writer) entry(uid types.UID) *entry {
	e := w.entries[uid]
	if e == nil {
		e = &entry{uid: uid}
		for _, t := range w.targets {
			e.deliveries = append(e.deliveries, newDelivery(t, e))
		}
		w.entries[uid] = e
	}
	return e
}

// drop removes an entry. A turn in progress goes on, and is not heeded.
func (w *Writer) drop(e *entry) {
	for _, d := range e.deliveries {
		d.target.queue.remove(&d.waits)
	}
	delete(w.entries, e.uid)
}

// dropIfTold drops a pod that nobody wants to know of, or that a sink has removed,
// once every sink has been told how it ended or does not have it. w.mu is held.
func (w *Writer) dropIfTold(e *entry) {
	over := e.leaving
	for _, d := range e.deliveries {
		if d.untold() {
			return
		}
		over = over || d.gone
	}
	if over {
		w.drop(e)
	}
}

func (w *Writer) translate(uid types.UID) types.UID {
	if w.cfg.TranslateUID == nil {
		return uid
	}
	return w.cfg.TranslateUID(uid)
}
