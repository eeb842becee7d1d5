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

// The reasons of the Kubernetes events that a Manager records about pods.
const (
	reasonResizeStarted    = "ResizeStarted"
	reasonResizeDeferred   = "ResizeDeferred"
	reasonResizeInfeasible = "ResizeInfeasible"
)

// Config configures a Manager.
type Config struct {
	// Store keeps the allocations. Required.
	Store *Store
	// Rules exclude infeasible resizes.
	Rules Rules
	// Fit decides the resizes that the rules allow. Manager.Retry calls it. Required.
	Fit Fit
	// Ready reports whether all pods of the node are available. Before that, no resize is granted.
	// Default: always true.
	Ready func() bool
	// Metrics are the callbacks for metrics.
	Metrics Metrics
	// Event records Kubernetes events. It must not block. Optional.
	Event podwright.EventFunc
	// Logger receives errors. Optional: without it they are discarded.
	Logger *slog.Logger
}

// Manager keeps the allocations of pods. Use New. Retry, the Admitter and the Cleaner belong to
// the loop's goroutine; the other methods are safe for concurrent use.
type Manager struct {
	cfg Config

	mu sync.Mutex
	// views are the desired and allocated versions last returned by Allocated.
	views map[types.UID]view
	// waiting are the resizes that were not granted. begun are the pods with a granted resize that
	// Begun has not reported.
	waiting map[types.UID]Waiting
	begun   map[types.UID]bool
	decided bool
	// lastPods are the pods of the last Retry. Used by the loop only.
	lastPods map[types.UID]*v1.Pod
	// forceDecision forces a decision in the next Retry. Used by the loop only.
	forceDecision bool
}

type view struct{ desired, allocated *v1.Pod }

var _ syncloop.Allocator = (*Manager)(nil)

// New returns a Manager, or an error that names missing fields.
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
		cfg: cfg, views: map[types.UID]view{}, waiting: map[types.UID]Waiting{}, begun: map[types.UID]bool{}, lastPods: map[types.UID]*v1.Pod{},
	}, nil
}

// Allocated returns the pod with its allocation. Static pods and pods without an allocation are
// returned unchanged. The same pod yields the same object until its allocation changes. It
// implements syncloop.Allocator.
func (m *Manager) Allocated(pod *v1.Pod) *v1.Pod {
	if podfacts.IsStatic(pod) {
		return pod
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := m.views[pod.UID]; v.desired == pod {
		return v.allocated
	}
	r, ok := m.cfg.Store.Get(pod.UID)
	if !ok {
		return pod
	}
	v := view{pod, r.Apply(pod)}
	m.views[pod.UID] = v
	return v.allocated
}

// Admitter returns an Admitter that calls next for the pod with its allocation, or with its
// requests if it has none. It stores the allocation of admitted pods. It must be the last Admitter
// of a chain: a pod that it admits and a later one rejects would keep an allocation.
func (m *Manager) Admitter(next syncloop.Admitter) syncloop.Admitter {
	check := syncloop.AdmitterFunc(func(pod *v1.Pod, active []*v1.Pod) error {
		pod = m.Allocated(pod)
		if err := ResourcesOf(pod).check(); err != nil {
			return syncloop.Reject("UnexpectedAdmissionError", "Allocate failed due to %v, which is unexpected", err)
		}
		return next.Admit(pod, active)
	})
	// The Stage writes the file before the pod starts, so that the loop does not wait for the disk
	// once per pod.
	store := syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		m.cfg.Store.setUnsaved(pod.UID, ResourcesOf(m.Allocated(pod)))
		return nil
	})
	return syncloop.AdmitAll(check, store)
}

// Granted reports whether a pod has an allocation: this agent or an earlier one admitted it.
func (m *Manager) Granted(uid types.UID) bool {
	_, ok := m.cfg.Store.Get(uid)
	return ok
}

func (m *Manager) storeAllocation(uid types.UID, r Resources) error {
	if err := m.cfg.Store.Set(uid, r); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.views, uid)
	return nil
}

// Retry decides all resizes if pods have changed or resizes wait. trigger is the cause of the
// call. It returns the pods whose allocation or waiting resize changed. A resize that cannot be
// written to the Store is logged, and decided again by the next call; until then it waits as
// before. It implements syncloop.Allocator.
func (m *Manager) Retry(trigger string, active []*v1.Pod) []types.UID {
	m.forceDecision = m.needsDecision(active)
	if !m.cfg.Ready() {
		return nil
	}
	m.mu.Lock()
	m.decided = true
	m.mu.Unlock()
	if !m.forceDecision {
		return nil
	}
	m.forceDecision = false
	before := m.waitingResizes(active)
	verdicts := Decide(Input{Pods: active, Granted: m.cfg.Store.Get, Waiting: before, Rules: m.cfg.Rules, Fit: m.cfg.Fit, Now: time.Now()})
	waiting := map[types.UID]Waiting{}
	var touched []types.UID
	for _, v := range verdicts {
		uid := v.Pod.UID
		switch was, waited := before[uid]; {
		case v.Granted && m.grant(v, trigger):
			touched = append(touched, uid)
		case v.Granted:
			if waited {
				waiting[uid] = was
			}
		default:
			waiting[uid] = v.Waiting
			if v.Waiting != m.waiting[uid] {
				touched = append(touched, uid)
			}
			m.refuse(v)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.waiting {
		if _, waits := waiting[uid]; !waits && !slices.Contains(touched, uid) {
			touched = append(touched, uid)
		}
	}
	m.waiting = waiting
	return touched
}

// needsDecision reports whether a decision may be needed, and counts requested resizes in the metrics.
func (m *Manager) needsDecision(active []*v1.Pod) bool {
	needed := m.forceDecision || len(m.waiting) > 0
	for _, pod := range active {
		before := m.lastPods[pod.UID]
		if before == pod {
			continue
		}
		m.lastPods[pod.UID] = pod
		if r, ok := m.cfg.Store.Get(pod.UID); ok && !r.Describes(pod) {
			needed = true
		}
		if before != nil {
			m.cfg.Metrics.count(before, pod)
		}
	}
	return needed
}

// waitingResizes returns the waiting resizes, also if an earlier agent published them in the pod's
// status.
func (m *Manager) waitingResizes(active []*v1.Pod) map[types.UID]Waiting {
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

// grant stores a granted resize and reports success. After a failed write the resize is retried.
func (m *Manager) grant(v Verdict, trigger string) bool {
	if err := m.storeAllocation(v.Pod.UID, ResourcesOf(v.Pod)); err != nil {
		m.forceDecision = true
		m.cfg.Logger.Error("cannot store a granted resize; retrying", "pod", v.Pod.Namespace+"/"+v.Pod.Name, "podUID", v.Pod.UID, "err", err)
		return false
	}
	if podfacts.IsStatic(v.Pod) {
		return true
	}
	m.mu.Lock()
	m.begun[v.Pod.UID] = true
	m.mu.Unlock()
	m.cfg.Event(podfacts.Reference(v.Pod), v1.EventTypeNormal, reasonResizeStarted, podfacts.ResizeMessage("Pod resize started", v.Pod, ""))
	if v.WasDeferred {
		m.cfg.Metrics.OnDeferredAccepted(trigger)
	}
	return true
}

func (m *Manager) refuse(v Verdict) {
	if !v.IsNew {
		return
	}
	reason := reasonResizeDeferred
	if v.Waiting.Reason == v1.PodReasonInfeasible {
		reason = reasonResizeInfeasible
		m.cfg.Metrics.OnInfeasible(v.Detail)
	}
	m.cfg.Event(podfacts.Reference(v.Pod), v1.EventTypeWarning, reason, podfacts.ResizeMessage("Pod resize "+v.Waiting.Reason, v.Pod, v.Waiting.Message))
}

// Waiting returns the waiting resize of a pod, or false without one.
func (m *Manager) Waiting(uid types.UID) (Waiting, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.waiting[uid]
	return w, ok
}

// Decided reports whether Retry has decided at least once. Before that, the waiting resizes are
// unknown.
func (m *Manager) Decided() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.decided
}

// Begun returns true once per granted resize: in the first call with a pod whose spec has the new
// allocation.
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

// Cleaner returns a housekeeping step that drops pods without a worker that are not desired, from
// the Manager, its Store and the stores in also.
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
		maps.DeleteFunc(m.lastPods, func(uid types.UID, _ *v1.Pod) bool { return !wanted(uid) })
		return nil
	}}
}
