package status

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
)

// ErrAlreadyRunning is returned by Manager.Run while another Run has not returned.
var ErrAlreadyRunning = errors.New("status: the manager runs already")

// Manager is the memory of the newest status of each pod, and writes them to a
// Sink. Use NewManager. All methods may be called at any time, before, during and
// after Run, from several goroutines; none of them waits for the sink.
//
// Pods are known by their UIDs, static pods by their own; a mirror's UID stands
// for the static pod's.
type Manager struct {
	cfg    ManagerConfig
	limits limits
	wake   chan struct{}

	mu      sync.Mutex
	entries map[types.UID]*entry
	// writing are the entries with a turn in progress, also those that were
	// forgotten meanwhile: two turns of a pod must not overlap.
	writing map[types.UID]*entry
	queue   queue
	// turns is how many turns take part in the limit on parallel writes.
	turns int
	// failures counts the failed calls since the last one that went well.
	failures int
	running  bool
}

// entry is what the manager has of a pod.
type entry struct {
	uid types.UID
	slot
	// waits is its place among those to be written.
	waits place
	// leaving: nobody wants to know of the pod any more, but the sink has not
	// been told yet how it ended.
	leaving bool
	// calling is the call in progress, began when it was made.
	calling callKind
	began   time.Time
}

// NewManager returns a Manager. Nothing is written before Run.
func NewManager(cfg ManagerConfig) (*Manager, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Manager{
		cfg:     cfg,
		limits:  limits{first: cfg.RetryBackoff, longest: cfg.Resync, absent: 6 * cfg.Resync},
		wake:    make(chan struct{}, 1),
		entries: map[types.UID]*entry{},
		writing: map[types.UID]*entry{},
	}, nil
}

// Get returns the newest status of a pod, nil when there is none. It is shared and
// must not be changed.
func (m *Manager) Get(uid types.UID) *v1.PodStatus {
	uid = m.translate(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[uid]; e != nil && !e.leaving {
		return e.status
	}
	return nil
}

// Pods returns every pod that has a status, as it was handed in last. The pods are
// shared and must not be changed.
func (m *Manager) Pods() map[types.UID]*v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[types.UID]*v1.Pod, len(m.entries))
	for uid, e := range m.entries {
		if !e.leaving {
			out[uid] = e.pod
		}
	}
	return out
}

// Set states the status of a pod. It is copied, and Normalized. What the status
// before knows stays where it has to: the start time, the generation that was
// observed, and the transition time of a condition whose status is the same. The
// one before is the one that was set last or restored, else the mirror's, else
// the pod's own.
//
// A status in which a container that has ended for good has not (CheckTransition)
// is refused with a line in the log. One that says the same as before is not
// written; of a pod that is to be deleted, what is left to do is looked at anew.
func (m *Manager) Set(pod *v1.Pod, s v1.PodStatus) {
	s = *s.DeepCopy()
	m.update(pod, pod.DeletionTimestamp != nil, func(*entry, *v1.PodStatus) v1.PodStatus { return s })
}

// Terminate states that nothing is left of a pod, neither containers nor anything
// that they held: it closes the books (Finalize). A pod that is to be deleted is
// removed from the sink once that has accepted a terminal phase of it.
func (m *Manager) Terminate(pod *v1.Pod) {
	m.update(pod, true, func(e *entry, before *v1.PodStatus) v1.PodStatus {
		e.finished = true
		judged := *pod
		switch {
		case m.cfg.Sink == nil:
			judged.Status = *before // there is no other account of it
		case e.base != nil:
			judged.Status = *e.base.status
		}
		return Finalize(&judged, *before, time.Now())
	})
}

// Change replaces the status of a pod by what next makes of it; a pod without one
// stays so. next is called under a lock: it must be quick and not call back. The
// status that it is given is shared: it must not be changed, but what is returned
// may share memory with it. For the rest it is as with Set.
func (m *Manager) Change(uid types.UID, next func(v1.PodStatus) v1.PodStatus) {
	m.edit(uid, func(_ *v1.Pod, s v1.PodStatus) (v1.PodStatus, bool) { return next(s), true })
}

// SetContainerReadiness states whether a container is ready, and what follows from
// that for the pod, at once; see WithContainerReady. Of a pod or container that is
// not known, and when it changes nothing, it does nothing.
func (m *Manager) SetContainerReadiness(uid types.UID, containerID string, ready bool) {
	m.edit(uid, func(pod *v1.Pod, s v1.PodStatus) (v1.PodStatus, bool) {
		return WithContainerReady(pod, s, containerID, ready, time.Now())
	})
}

// SetContainerStartup states whether a container has started; see
// WithContainerStarted.
func (m *Manager) SetContainerStartup(uid types.UID, containerID string, started bool) {
	m.edit(uid, func(pod *v1.Pod, s v1.PodStatus) (v1.PodStatus, bool) {
		return WithContainerStarted(pod, s, containerID, started, time.Now())
	})
}

// Restore states the status that a pod had in an earlier life of the agent. It is
// what the next one follows from, and what Get returns until then, but is not
// written, and does nothing for a pod that has a status already.
func (m *Manager) Restore(pod *v1.Pod, s v1.PodStatus) {
	s = Normalize(pod, *s.DeepCopy())
	uid := m.translate(pod.UID)
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entry(uid); e.status == nil {
		e.pod, e.status = pod, &s
	}
}

// Forget drops a pod at once, also what the sink has not been told of it.
func (m *Manager) Forget(uid types.UID) {
	uid = m.translate(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[uid]; e != nil {
		m.drop(e)
	}
}

// Prune drops every pod for which wanted says no: Get and Pods do not return them
// any more. What the sink has not been told of such a pod is still written, unless
// it has no such pod; then it is dropped altogether. wanted is called without
// locks.
func (m *Manager) Prune(wanted func(types.UID) bool) {
	m.mu.Lock()
	uids := slices.Collect(maps.Keys(m.entries))
	m.mu.Unlock()
	uids = slices.DeleteFunc(uids, wanted)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uid := range uids {
		if e := m.entries[uid]; e != nil {
			e.leaving = true
			m.dropIfTold(e)
		}
	}
}

// update sets the status that next makes of the one before.
func (m *Manager) update(pod *v1.Pod, forced bool, next func(*entry, *v1.PodStatus) v1.PodStatus) {
	uid := m.translate(pod.UID)
	before := &pod.Status
	if m.cfg.Mirror != nil && podfacts.IsStatic(pod) {
		if mirror := m.cfg.Mirror(uid); mirror != nil {
			before = &mirror.Status
		}
	}
	m.mu.Lock()
	e := m.entry(uid)
	if e.status != nil {
		before = e.status
	}
	c := m.store(e, pod, before, next(e, before), forced)
	m.mu.Unlock()
	m.tell(uid, c)
}

// edit changes a status that is there.
func (m *Manager) edit(uid types.UID, next func(*v1.Pod, v1.PodStatus) (v1.PodStatus, bool)) {
	uid = m.translate(uid)
	m.mu.Lock()
	var c change
	if e := m.entries[uid]; e != nil && !e.leaving {
		if s, ok := next(e.pod, *e.status); ok {
			c = m.store(e, e.pod, e.status, s, false)
		}
	}
	m.mu.Unlock()
	m.tell(uid, c)
}

// change is what others are told of a change.
type change struct {
	happened bool
	ended    []terminated
}

type terminated struct {
	kind  string
	state *v1.ContainerStateTerminated
}

// store makes s the newest status of a pod. m.mu is held.
func (m *Manager) store(e *entry, pod *v1.Pod, before *v1.PodStatus, s v1.PodStatus, forced bool) (c change) {
	if err := CheckTransition(pod, before, &s); err != nil {
		m.cfg.Logger.Error("status refused", "pod", podfacts.FullName(pod), "uid", pod.UID, "err", err)
		if e.status != nil {
			return c
		}
		// Nothing was said of it yet: what is known stays.
		s = *before
	}
	now := time.Now()
	s = Normalize(pod, follow(*before, s, now))
	alike := e.status != nil && Equal(e.status, &s)
	if alike && e.version > 0 && !forced {
		e.pod, e.status = pod, &s // what others own may have changed
		return c
	}
	c.happened = !alike || e.version == 0
	if e.status != nil {
		c.ended = newlyTerminated(e.status, &s)
	}
	e.leaving = false
	e.set(pod, &s, now)
	m.enqueue(e)
	return c
}

// follow lets a status take over from the one before what stays.
func follow(before, s v1.PodStatus, now time.Time) v1.PodStatus {
	switch {
	case before.StartTime != nil:
		s.StartTime = before.StartTime
	case s.StartTime == nil:
		s.StartTime = &metav1.Time{Time: now}
	}
	s.ObservedGeneration = max(s.ObservedGeneration, before.ObservedGeneration)
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress || !owned(c.Type) && !shared(c.Type) {
			continue // theirs moves with the reason, or is not ours
		}
		switch old := podfacts.Condition(before.Conditions, c.Type); {
		case old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero():
			c.LastTransitionTime = old.LastTransitionTime
		case c.LastTransitionTime.IsZero(), old != nil && !c.LastTransitionTime.After(old.LastTransitionTime.Time):
			c.LastTransitionTime = metav1.NewTime(now)
		}
	}
	return s
}

// newlyTerminated are the containers that have terminated between two statuses.
func newlyTerminated(before, s *v1.PodStatus) (out []terminated) {
	for _, list := range []struct {
		kind   string
		is, of []v1.ContainerStatus
	}{
		{"init_containers", s.InitContainerStatuses, before.InitContainerStatuses},
		{"containers", s.ContainerStatuses, before.ContainerStatuses},
		{"ephemeral_containers", s.EphemeralContainerStatuses, before.EphemeralContainerStatuses},
	} {
		for i := range list.is {
			state, was := list.is[i].State.Terminated, find(list.of, list.is[i].Name)
			if state != nil && (was == nil || was.State.Terminated == nil) {
				out = append(out, terminated{list.kind, state})
			}
		}
	}
	return out
}

// entry returns a pod's entry, a new one if it has none. m.mu is held.
func (m *Manager) entry(uid types.UID) *entry {
	e := m.entries[uid]
	if e == nil {
		e = &entry{uid: uid}
		e.waits.owner = e
		m.entries[uid] = e
	}
	return e
}

// drop removes an entry. A turn in progress goes on, and is not heeded.
func (m *Manager) drop(e *entry) {
	m.queue.remove(&e.waits)
	delete(m.entries, e.uid)
}

// dropIfTold drops a pod that nobody wants to know of, once the sink has been told
// how it ended or does not have it. m.mu is held.
func (m *Manager) dropIfTold(e *entry) {
	if !e.leaving {
		return
	}
	untold := e.version > e.written || e.toDelete()
	if m.cfg.Sink == nil || !untold || e.absent || e.mirror && e.ref.UID == "" {
		m.drop(e)
	}
}

// tell tells others of a change. m.mu is not held.
func (m *Manager) tell(uid types.UID, c change) {
	if told := m.cfg.Metrics.Terminated; told != nil {
		for _, ended := range c.ended {
			told(ended.kind, ended.state)
		}
	}
	if c.happened && m.cfg.Changed != nil {
		m.cfg.Changed(uid)
	}
}

func (m *Manager) translate(uid types.UID) types.UID {
	if m.cfg.TranslateUID == nil {
		return uid
	}
	return m.cfg.TranslateUID(uid)
}
