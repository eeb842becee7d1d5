package podworkers

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
)

// machine decides about every pod. It starts no goroutine, reads no clock and calls only
// Config.Jitter. Each input (update, complete, syncKnownPods, forget, tick, open, shut) leaves
// the resulting actions of the shell in out, to be done in the order of the fields of effects.
// The same inputs have the same effects in the same order.
//
// Invariants after every input:
//
//	r.call != CallNone  =>  r is not in due                       (one call per pod)
//	r.call == CallNone && r.ready  =>  !open || r waits for its name's slot
//	r.state >= StateTerminationRequested  <=>  r.grace.seconds >= 1,
//	                           but for pods that were found terminated
//	r.state >= StateTerminated  =>  len(r.done) == 0
//	r.state == StateFinished  =>  r has no spec, and is neither ready nor due
//	open, and a name has no holder  =>  no pod waits for it
type machine struct {
	policy retryPolicy
	// hasOnDue is true if the shell can request the newest update of a due pod (Config.OnDue).
	hasOnDue bool
	// isOpen is true between open and shut: calls may start.
	isOpen bool
	isShut bool

	records map[types.UID]*record
	names   nameSlots
	due     dueQueue
	// known is true after the first syncKnownPods.
	known bool
	gen   uint64
	// forgottenActedAt is the end of the latest call of any forgotten pod. It is the initial
	// actedAt of new pods, because one may be a forgotten pod with the same UID.
	forgottenActedAt time.Time

	out effects
}

// effects are the actions of the shell after an input.
type effects struct {
	moves   []Transition
	cancel  []cancellation
	release []types.UID // contexts to drop
	done    []chan<- struct{}
	start   []call
	onDue   []types.UID
}

type cancellation struct {
	uid   types.UID
	cause error
}

// call is one call of the syncer. gen distinguishes two pods with one UID.
type call struct {
	uid    types.UID
	gen    uint64
	kind   Call
	work   Work
	orphan RuntimePod
}

// spec is the newest version of a pod from its source.
type spec struct {
	pod, mirror *v1.Pod
	typ         UpdateType
	start       time.Time
}

// record is the state of one pod UID.
type record struct {
	uid             types.UID
	gen             uint64
	namespace, name string
	state           State
	since           time.Time

	static    bool
	hasConfig bool // a spec was received
	begun     bool // a call was made
	observed  bool // the runtime lists it
	undesired bool // missing in the last syncKnownPods
	deleted   bool
	evicted   bool
	restart   bool

	active     spec // of the last call
	pending    spec // of the next call, zero if not hasPending
	hasPending bool
	ready      bool // a call is due now
	orphan     *RuntimePod

	grace  grace
	status func(*v1.PodStatus)
	done   []chan<- struct{}

	call        Call
	callSince   time.Time
	cancelledAt time.Time // of the running call; zero: not cancelled
	actedAt     time.Time
	lastErr     error
	lastErrAt   time.Time
	failedAt    time.Time // of the last call, expected failures included
	hot         bool      // the last call requested an immediate retry
	due         time.Time
	place       run.Place // in machine.due
}

func newMachine(policy retryPolicy, hasOnDue bool) *machine {
	return &machine{policy: policy, hasOnDue: hasOnDue, records: map[types.UID]*record{}, names: nameSlots{}, due: newDueQueue()}
}

// take returns and clears the effects.
func (m *machine) take() effects {
	out := m.out
	m.out = effects{}
	return out
}

// open allows calls.
func (m *machine) open(now time.Time) {
	m.isOpen = true
	for _, r := range m.inOrder(func(*record) bool { return true }) {
		m.advance(r, now)
	}
}

// inOrder returns the wanted records, oldest first.
func (m *machine) inOrder(wanted func(*record) bool) []*record {
	var records []*record
	for _, r := range m.records {
		if wanted(r) {
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b *record) int { return cmp.Compare(a.gen, b.gen) })
	return records
}

// shut prevents further calls. Running calls still report their end.
func (m *machine) shut() { m.isOpen, m.isShut = false, true }

// update handles one valid update. stopped is true if the pod's phase is final and all of its
// containers are proven stopped.
func (m *machine) update(u Update, stopped bool, now time.Time) {
	r, known := m.records[u.uid()]
	if !known {
		r = m.create(u, now)
	}
	switch {
	case u.Type == UpdateCreate && r.state >= StateTerminationRequested:
		r.restart = true
	case r.runtimeOnly() && !requestsTermination(u):
		// The pod is desired again, but its UID is still being stopped as an orphan. The syncer
		// does not get the spec now, since the pod's status must not become final.
		r.restart = true
	default:
		m.accept(r, u, stopped, now)
	}
	m.register(r, u.Kill)
	m.advance(r, now)
	if r.state == StateUnknown {
		m.setState(r, StateWaiting, now)
	}
}

// accept handles an update that is not deferred until the pod is forgotten.
func (m *machine) accept(r *record, u Update, stopped bool, now time.Time) {
	if r.state >= StateTerminated && u.Pod == nil {
		return // the runtime's list is stale
	}
	r.flag(u)
	if r.state == StateFinished {
		return
	}
	next := m.nextSpec(r, u, now)
	if r.state == StateUnknown && stopped && podfacts.IsTerminalPhase(next.pod.Status.Phase) {
		m.setState(r, StateTerminated, now)
	}
	m.put(r, next)
	switch {
	case r.state < StateTerminationRequested && requestsTermination(u):
		m.requestTermination(r, override(u), now)
	case r.state == StateTerminationRequested || r.state == StateTerminating:
		m.recomputeGrace(r, next.pod, override(u), now)
	}
	if r.static && r.state == StateUnknown {
		m.names.enqueue(r.fullName(), r.uid)
	}
}

func (m *machine) create(u Update, now time.Time) *record {
	m.gen++
	r := &record{uid: u.uid(), gen: m.gen, since: now, actedAt: m.forgottenActedAt}
	m.records[r.uid] = r
	return r
}

// nextSpec returns the spec of the next call. A runtime pod gets its spec as soon as a source
// sends one.
func (m *machine) nextSpec(r *record, u Update, now time.Time) spec {
	next := spec{pod: u.Pod, mirror: u.MirrorPod, typ: u.Type, start: u.StartTime}
	if next.start.IsZero() {
		next.start = now
	}
	if u.Pod == nil {
		r.observed = true
		last := r.last()
		next.pod, next.mirror = last.pod, last.mirror
		if !r.hasConfig {
			o := *u.RuntimePod
			r.orphan, r.namespace, r.name = &o, o.Namespace, o.Name
		}
		return next
	}
	if !r.hasConfig {
		r.hasConfig, r.static = true, podfacts.IsStatic(u.Pod)
		r.namespace, r.name = u.Pod.Namespace, u.Pod.Name
	}
	return next
}

// put replaces the pending update and keeps the oldest start time.
func (m *machine) put(r *record, next spec) {
	if r.hasPending && r.pending.start.Before(next.start) {
		next.start = r.pending.start
	}
	r.pending, r.hasPending, r.ready = next, true, true
}

// register stores the options of a kill. It closes Done at once if no container can run.
func (m *machine) register(r *record, kill *KillOptions) {
	if kill == nil {
		return
	}
	terminating := r.state == StateTerminationRequested || r.state == StateTerminating
	if terminating && kill.Status != nil {
		r.status = kill.Status
	}
	switch {
	case kill.Done == nil:
	case !terminating:
		m.out.done = append(m.out.done, kill.Done)
	case !r.waitsFor(kill.Done):
		r.done = append(r.done, kill.Done)
	}
}

func (m *machine) requestTermination(r *record, graceOverride *int64, now time.Time) {
	m.cancel(r, ErrTerminationRequested, now)
	r.grace = orphanGrace
	if pod := r.last().pod; pod != nil {
		r.grace = effectiveGrace(grace{}, pod, graceOverride)
	}
	m.setState(r, StateTerminationRequested, now)
}

func (m *machine) recomputeGrace(r *record, pod *v1.Pod, graceOverride *int64, now time.Time) {
	if pod == nil {
		return
	}
	before := r.grace.seconds
	r.grace = effectiveGrace(r.grace, pod, graceOverride)
	if r.grace.seconds < before { // otherwise SyncPod was cancelled before, or SyncTerminatingOrphan has the minimum
		m.cancel(r, ErrGracePeriodShortened, now)
	}
}

// cancel cancels the running call, at most once.
func (m *machine) cancel(r *record, cause error, now time.Time) {
	if r.call == CallNone || !r.cancelledAt.IsZero() {
		return
	}
	r.cancelledAt = now
	m.out.cancel = append(m.out.cancel, cancellation{r.uid, cause})
}

func (m *machine) setState(r *record, to State, now time.Time) {
	m.out.moves = append(m.out.moves, Transition{UID: r.uid, Namespace: r.namespace, Name: r.name, From: r.state, To: to, At: now})
	r.state, r.since = to, now
}

// uid returns the UID of the update's pod.
func (u Update) uid() types.UID {
	if u.Pod != nil {
		return u.Pod.UID
	}
	return u.RuntimePod.UID
}

// requestsTermination reports whether an update requests the pod's termination. An update without a pod
// is a kill.
func requestsTermination(u Update) bool {
	return u.Type == UpdateKill || u.Pod.DeletionTimestamp != nil || podfacts.IsTerminalPhase(u.Pod.Status.Phase)
}

func override(u Update) *int64 {
	if u.Kill == nil {
		return nil
	}
	return u.Kill.GracePeriodSeconds
}

// flag records the deletion and eviction of an update, in every state.
func (r *record) flag(u Update) {
	if u.Pod == nil || u.Pod.DeletionTimestamp != nil {
		r.deleted = true
	}
	if u.Kill != nil && u.Kill.Evict {
		r.evicted = true
	}
}

// last returns the newest spec, whether or not a call has used it.
func (r *record) last() spec {
	if r.hasPending {
		return r.pending
	}
	return r.active
}

// runtimeOnly reports whether the pod has no spec.
func (r *record) runtimeOnly() bool { return !r.hasConfig && r.orphan != nil }

func (r *record) fullName() string { return r.name + "_" + r.namespace }

func (r *record) waitsFor(done chan<- struct{}) bool {
	for _, d := range r.done {
		if d == done {
			return true
		}
	}
	return false
}
