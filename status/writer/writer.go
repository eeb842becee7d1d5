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
	// ErrShutdownTimeout is wrapped by the error of Run if calls of a sink ignore their context.
	ErrShutdownTimeout = run.ErrShutdownTimeout
	// ErrNoSink is wrapped by the error of Flush if Config has no such sink.
	ErrNoSink = errors.New("no such sink")
)

// Writer stores the newest status of each pod, and writes them to sinks. Use New. All methods are
// safe for concurrent use before, during and after Run. Only Flush waits for a sink.
//
// Pods are identified by their UIDs, static pods by their own. All methods also accept a mirror
// pod's UID for its static pod.
type Writer struct {
	cfg     Config
	targets []*target

	mu      sync.Mutex
	entries map[types.UID]*entry
	ran     bool
}

type entry struct {
	uid types.UID
	pod *v1.Pod
	// status is the newest status, shared and never changed. It may be nil.
	status *v1.PodStatus
	// set is true if the status was set after a restore, if any.
	set bool
	// pruned is true if the pod was pruned, but a sink has not accepted its end.
	pruned     bool
	deliveries []*delivery
}

// New returns a Writer, or an error that names missing and invalid fields. Before Run, only Flush
// writes.
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

// Run writes statuses until ctx is done. Then Receivers receive their missing statuses, Run
// cancels the calls in progress and returns nil. If calls do not return within ShutdownTimeout,
// Run returns an error that lists their pods and wraps ErrShutdownTimeout. A second Run returns
// ErrAlreadyRun.
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

// Get returns the newest status of a pod, or nil. It is shared and must not be changed.
func (w *Writer) Get(uid types.UID) *v1.PodStatus {
	uid = w.translate(uid)
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entries[uid]; e != nil && !e.pruned {
		return e.status
	}
	return nil
}

// Pods returns the last passed version of every pod with a status. The pods are shared and must
// not be changed.
func (w *Writer) Pods() map[types.UID]*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[types.UID]*v1.Pod, len(w.entries))
	for uid, e := range w.entries {
		if !e.pruned {
			out[uid] = e.pod
		}
	}
	return out
}

// Forget drops a pod at once, including its unwritten changes. A DeletionReceiver receives the
// deletion.
func (w *Writer) Forget(uid types.UID) {
	uid = w.translate(uid)
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entries[uid]; e != nil {
		w.drop(e)
	}
}

// Prune drops every pod that wanted rejects: Get and Pods no longer return it. Its unwritten
// changes are still written, unless the sink has no such pod. Afterwards its state is dropped, and
// a DeletionReceiver receives the deletion.
// wanted is called without locks.
func (w *Writer) Prune(wanted func(types.UID) bool) {
	w.mu.Lock()
	uids := slices.Collect(maps.Keys(w.entries))
	w.mu.Unlock()
	uids = slices.DeleteFunc(uids, wanted)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uid := range uids {
		if e := w.entries[uid]; e != nil {
			e.pruned = true
			w.dropIfAccepted(e)
		}
	}
}

// Observe records a pod as seen at a sink, for example by a watch: a mirror pod, or a pod that is
// not static. Call it for each change. If others have changed the node agent's part of the
// status, it is written again at the next resync. A deletion request takes effect at once.
// Observe ignores a pod without a status and a sink that Config does not name. pod must not be
// changed afterwards.
func (w *Writer) Observe(sink string, pod *v1.Pod) {
	if t := w.target(sink); t != nil && t.receiver == nil {
		t.observe(pod)
	}
}

// Flush writes the changes of a pod that a sink does not have, and waits for the result. It
// waits neither for Run nor for a pause after failures. A Receiver receives the newest status
// even without a change. Flush returns the error of the write, which is also logged, and Run
// retries the write like any other. Flush returns nil if no write is necessary, as for an
// unknown pod or one that was only restored.
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

// entry returns a pod's entry and creates a missing one. The caller holds mu.
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
	delete(w.entries, e.uid)
	for _, d := range e.deliveries {
		d.target.queue.remove(d)
		d.target.deleted(d)
	}
}

// dropIfAccepted drops a pod that was pruned, or that a sink has removed, once every sink has
// accepted its end or has no such pod. The caller holds mu.
func (w *Writer) dropIfAccepted(e *entry) {
	drop := e.pruned
	for _, d := range e.deliveries {
		if d.mustAcceptEnd() {
			return
		}
		drop = drop || d.content == removed
	}
	if drop {
		w.drop(e)
	}
}

func (w *Writer) translate(uid types.UID) types.UID {
	if w.cfg.TranslateUID == nil {
		return uid
	}
	return w.cfg.TranslateUID(uid)
}
