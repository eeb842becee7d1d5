package allocation

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// The reasons of the Kubernetes events that a Manager records. They are about pods.
const (
	ReasonResizeStarted    = "ResizeStarted"
	ReasonResizeDeferred   = "ResizeDeferred"
	ReasonResizeInfeasible = "ResizeInfeasible"
)

// Config is what a Manager works with.
type Config struct {
	// Store is where it is kept what pods were granted. Required.
	Store *Store
	// Rules say which resizes can never be granted.
	Rules Rules
	// Fit decides about the others. Required.
	Fit Fit
	// Ready tells whether all pods of the node are known: before, no resize is granted.
	// nil: they always are.
	Ready func() bool
	// Metrics are told what happens.
	Metrics Metrics
	// Event records Kubernetes events. It must not block. nil records none.
	Event podwright.EventFunc
	// Logger is told what goes wrong. nil discards.
	Logger *slog.Logger
}

// Manager keeps what pods were granted. Its methods are safe for concurrent use; what
// grants anything belongs to the loop's goroutine. Use New.
type Manager struct {
	cfg Config

	mu sync.Mutex
	// views are pods as they were asked for last, and as they were granted.
	views map[types.UID]view
	// waiting are the resizes that were not granted; begun are the pods of which Begun
	// has not told yet that one was.
	waiting map[types.UID]Waiting
	begun   map[types.UID]bool
	decided bool
	// wanted are pods as Retry saw them last. The loop's.
	wanted map[types.UID]*v1.Pod
	// again tells that a decision is due whatever has changed. The loop's.
	again bool
}

type view struct{ desired, granted *v1.Pod }

var _ syncloop.Allocator = (*Manager)(nil)

// New returns a Manager. Errors name the field.
func New(cfg Config) (*Manager, error) {
	f := fields.Of("allocation: Config")
	f.Required("Store", cfg.Store)
	f.Required("Fit", cfg.Fit)
	if err := f.Err(); err != nil {
		return nil, err
	}
	fields.Default(&cfg.Ready, func() bool { return true })
	fields.Default(&cfg.Event, func(v1.ObjectReference, string, string, string) {})
	fields.Default(&cfg.Metrics.OnRequest, func(string, string, string) {})
	fields.Default(&cfg.Metrics.OnInfeasible, func(string) {})
	fields.Default(&cfg.Metrics.OnDeferredAccepted, func(string) {})
	fields.Logger(&cfg.Logger)
	return &Manager{
		cfg: cfg, views: map[types.UID]view{}, waiting: map[types.UID]Waiting{}, begun: map[types.UID]bool{}, wanted: map[types.UID]*v1.Pod{},
	}, nil
}

// Allocated returns the pod with what it was granted: a static pod, or one that was not
// admitted yet, as it is. The same pod yields the same object until it is granted
// something else. It implements syncloop.Allocator.
func (m *Manager) Allocated(pod *v1.Pod) *v1.Pod {
	if podfacts.IsStatic(pod) {
		return pod
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := m.views[pod.UID]; v.desired == pod {
		return v.granted
	}
	r, ok := m.cfg.Store.Get(pod.UID)
	if !ok {
		return pod
	}
	v := view{pod, r.Apply(pod)}
	m.views[pod.UID] = v
	return v.granted
}

// Admitter returns an Admitter that asks next about pods with what they were granted, or
// what they ask for if that is nothing yet, and keeps that of those that are admitted. It
// is for the last word: a pod that is admitted here and refused elsewhere would count.
func (m *Manager) Admitter(next syncloop.Admitter) syncloop.Admitter {
	asked := syncloop.AdmitterFunc(func(pod *v1.Pod, active []*v1.Pod) error {
		pod = m.Allocated(pod)
		if err := Of(pod).check(); err != nil {
			return syncloop.Reject("UnexpectedAdmissionError", "%v", err)
		}
		return next.Admit(pod, active)
	})
	// What a pod begins with is in the file before it begins (Stage): the loop does not wait for
	// a disk once for each pod.
	keep := syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		m.cfg.Store.hold(pod.UID, Of(m.Allocated(pod)))
		return nil
	})
	return syncloop.AdmitAll(asked, keep)
}

// Granted tells whether a pod was granted what it has: it was admitted, if not by this agent
// then by the one before.
func (m *Manager) Granted(uid types.UID) bool {
	_, ok := m.cfg.Store.Get(uid)
	return ok
}

// keep grants resources.
func (m *Manager) keep(uid types.UID, r Resources) error {
	if err := m.cfg.Store.Set(uid, r); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.views, uid)
	return nil
}

// Retry decides about all resizes, if anything has changed or waits. trigger is why it is
// called. It returns the pods that were granted something or of which something else is to
// be said. It implements syncloop.Allocator.
func (m *Manager) Retry(trigger string, active []*v1.Pod) []types.UID {
	m.again = m.isDue(active)
	if !m.cfg.Ready() {
		return nil
	}
	m.mu.Lock()
	m.decided = true
	m.mu.Unlock()
	if !m.again {
		return nil
	}
	m.again = false
	verdicts := Decide(Input{Pods: active, Granted: m.cfg.Store.Get, Waiting: m.known(active), Rules: m.cfg.Rules, Fit: m.cfg.Fit, Now: time.Now()})
	waiting := map[types.UID]Waiting{}
	var touched []types.UID
	for _, v := range verdicts {
		uid := v.Pod.UID
		switch before := m.waiting[uid]; {
		case v.Granted:
			if !m.grant(v, trigger) {
				continue
			}
			touched = append(touched, uid)
		default:
			waiting[uid] = v.Waiting
			if v.Waiting != before {
				touched = append(touched, uid)
			}
			m.refuse(v)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.waiting {
		if _, still := waiting[uid]; !still && !slices.Contains(touched, uid) {
			touched = append(touched, uid)
		}
	}
	m.waiting = waiting
	return touched
}

// isDue tells whether there may be something to decide, and counts what was asked for.
func (m *Manager) isDue(active []*v1.Pod) bool {
	due := m.again || len(m.waiting) > 0
	for _, pod := range active {
		before := m.wanted[pod.UID]
		if before == pod {
			continue
		}
		m.wanted[pod.UID] = pod
		if r, ok := m.cfg.Store.Get(pod.UID); ok && !r.Describes(pod) {
			due = true
		}
		if before != nil {
			m.cfg.Metrics.count(before, pod)
		}
	}
	return due
}

// known are the resizes that wait: also those that an earlier agent has spoken of.
func (m *Manager) known(active []*v1.Pod) map[types.UID]Waiting {
	out := maps.Clone(m.waiting)
	for _, pod := range active {
		if _, ok := out[pod.UID]; ok {
			continue
		}
		if c := podfacts.Condition(pod.Status.Conditions, v1.PodResizePending); c != nil {
			out[pod.UID] = Waiting{Generation: c.ObservedGeneration, Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time}
		}
	}
	return out
}

// grant has a pod have what it asks for. What cannot be kept is not granted, and tried
// again.
func (m *Manager) grant(v Verdict, trigger string) bool {
	if err := m.keep(v.Pod.UID, Of(v.Pod)); err != nil {
		m.again = true
		m.cfg.Logger.Error("a resize cannot be granted now", "pod", v.Pod.Namespace+"/"+v.Pod.Name, "podUID", v.Pod.UID, "err", err)
		return false
	}
	if podfacts.IsStatic(v.Pod) {
		return true
	}
	m.mu.Lock()
	m.begun[v.Pod.UID] = true
	m.mu.Unlock()
	m.cfg.Event(podfacts.Reference(v.Pod), v1.EventTypeNormal, ReasonResizeStarted, podfacts.ResizeMessage("Pod resize started", v.Pod, ""))
	if v.WasDeferred {
		m.cfg.Metrics.OnDeferredAccepted(trigger)
	}
	return true
}

// refuse says why a pod does not have what it asks for.
func (m *Manager) refuse(v Verdict) {
	if !v.IsNew {
		return
	}
	reason := ReasonResizeDeferred
	if v.Waiting.Reason == v1.PodReasonInfeasible {
		reason = ReasonResizeInfeasible
		m.cfg.Metrics.OnInfeasible(v.Detail)
	}
	m.cfg.Event(podfacts.Reference(v.Pod), v1.EventTypeWarning, reason, podfacts.ResizeMessage("Pod resize "+v.Waiting.Reason, v.Pod, v.Waiting.Message))
}

// Waiting tells whether a resize waits to be granted, and why.
func (m *Manager) Waiting(uid types.UID) (Waiting, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.waiting[uid]
	return w, ok
}

// Decided tells whether Retry has decided: before, it is not known who waits.
func (m *Manager) Decided() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.decided
}

// Begun tells, once, that a resize was granted which the pod has in its spec.
func (m *Manager) Begun(pod *v1.Pod) bool {
	r, ok := m.cfg.Store.Get(pod.UID)
	if !ok || !r.Describes(pod) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	begun := m.begun[pod.UID]
	delete(m.begun, pod.UID)
	return begun
}

// Cleaner forgets pods that are gone, also in other stores. It is a step of housekeeping.
func (m *Manager) Cleaner(also ...*Store) syncloop.Cleaner {
	return syncloop.Cleaner{Name: "allocation", Clean: func(_ context.Context, c *syncloop.Cleanup) error {
		wanted := func(uid types.UID) bool {
			_, known := c.Known[uid]
			return known || c.Desired(uid)
		}
		for _, s := range append(also, m.cfg.Store) {
			s.Retain(wanted)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		maps.DeleteFunc(m.views, func(uid types.UID, _ view) bool { return !wanted(uid) })
		maps.DeleteFunc(m.begun, func(uid types.UID, _ bool) bool { return !wanted(uid) })
		maps.DeleteFunc(m.wanted, func(uid types.UID, _ *v1.Pod) bool { return !wanted(uid) })
		return nil
	}}
}
