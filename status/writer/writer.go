package writer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

var (
	// ErrAlreadyRun is returned by every Run but the first.
	ErrAlreadyRun = fields.AlreadyRun("writer")
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
// next resync; that a pod is to be deleted is heeded at once. A pod without a
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

// entry returns a pod's entry, a new one if it has none. w.mu is held.
func (w *Writer) entry(uid types.UID) *entry {
	e := w.entries[uid]
	if e == nil {
		e = &entry{uid: uid}
		for _, t := range w.targets {
			e.deliveries = append(e.deliveries, t.newDelivery(e))
		}
		w.entries[uid] = e
	}
	return e
}

// drop removes an entry. A write in progress continues; its result is discarded.
func (w *Writer) drop(e *entry) {
	for _, d := range e.deliveries {
		d.target.queue.remove(d)
	}
	delete(w.entries, e.uid)
}

// dropIfTold drops a pod that was pruned, or that a sink has removed, once every sink
// has accepted its end or does not have it. The caller holds mu.
func (w *Writer) dropIfTold(e *entry) {
	over := e.leaving
	for _, d := range e.deliveries {
		if d.owes() {
			return
		}
		over = over || d.content == removed
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
