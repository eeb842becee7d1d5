package podworkers

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
)

// Machine is the pure machine for tests outside the package. Each input advances the clock a
// little and returns the resulting events of Config.OnTrace.
type Machine struct {
	m       *machine
	now     time.Time
	running map[types.UID]call
}

// NewMachine returns a machine before Run.
func NewMachine() *Machine {
	return &Machine{m: newMachine(rigPolicy, false), now: time.Unix(1000, 0), running: map[types.UID]call{}}
}

func (x *Machine) input(e TraceEvent, input func(now time.Time)) []TraceEvent {
	x.now = x.now.Add(time.Millisecond)
	e.At = x.now
	events := []TraceEvent{e}
	input(x.now)
	out := x.m.take()
	for _, c := range out.start {
		x.running[c.uid] = c
	}
	out.trace(x.now, func(e TraceEvent) { events = append(events, e) })
	return events
}

func (x *Machine) Update(u Update, stopped bool) []TraceEvent {
	e := TraceEvent{Kind: TraceUpdate, UID: u.uid(), Update: u, Stopped: stopped}
	return x.input(e, func(now time.Time) { x.m.update(u, stopped, now) })
}

func (x *Machine) Known(desired []*v1.Pod) []TraceEvent {
	return x.input(TraceEvent{Kind: TraceKnown, Desired: uidsOf(desired)}, func(now time.Time) { x.m.syncKnownPods(desired, now) })
}

func (x *Machine) Forget(uid types.UID) []TraceEvent {
	return x.input(TraceEvent{Kind: TraceForget, UID: uid}, func(now time.Time) { x.m.forget(uid, now) })
}

func (x *Machine) Run() []TraceEvent { return x.input(TraceEvent{Kind: TraceRun}, x.m.open) }

func (x *Machine) Stop() []TraceEvent {
	return x.input(TraceEvent{Kind: TraceStop}, func(time.Time) { x.m.shut() })
}

// Wait advances the clock and handles the pods that are due then.
func (x *Machine) Wait(d time.Duration) []TraceEvent {
	x.now = x.now.Add(d)
	return x.input(TraceEvent{}, x.m.tick)[1:]
}

// End ends the running call of a pod.
func (x *Machine) End(uid types.UID, terminal bool, err error) []TraceEvent {
	c := x.running[uid]
	delete(x.running, uid)
	return x.input(TraceEvent{Kind: TraceEnd, UID: uid, Call: c.kind, Terminal: terminal, Err: err}, func(now time.Time) {
		x.m.complete(uid, c.gen, result{terminal, classify(err)}, now)
	})
}

// Running returns the running call of a pod.
func (x *Machine) Running(uid types.UID) Call { return x.running[uid].kind }

// Waiters returns the number of Done channels that wait for a pod to stop.
func (x *Machine) Waiters(uid types.UID) int {
	if r := x.m.records[uid]; r != nil {
		return len(r.done)
	}
	return 0
}

// Pods implements podworkerstest.Workers.
func (x *Machine) Pods() []PodState {
	pods := make([]PodState, 0, len(x.m.records))
	for uid := range x.m.records {
		pods = append(pods, x.m.podState(uid))
	}
	return pods
}

func (x *Machine) Open() bool    { return x.m.isOpen }
func (x *Machine) Stopped() bool { return x.m.isShut }

// Clone returns an independent copy.
func (x *Machine) Clone() *Machine {
	m := *x.m
	m.records = make(map[types.UID]*record, len(x.m.records))
	for uid, r := range x.m.records {
		copied := *r
		copied.done, copied.place = slices.Clone(r.done), run.Place{}
		m.records[uid] = &copied
	}
	m.due = newDueQueue()
	for _, r := range x.m.inOrder(func(r *record) bool { return r.place.In() }) {
		m.due.set(m.records[r.uid], r.due)
	}
	m.names = make(nameSlots, len(x.m.names))
	for name, s := range x.m.names {
		m.names[name] = &nameSlot{holders: slices.Clone(s.holders), waiting: slices.Clone(s.waiting)}
	}
	return &Machine{m: &m, now: x.now, running: maps.Clone(x.running)}
}

// AppendKey appends the state without times and generations. Machines with the same key behave
// alike.
func (x *Machine) AppendKey(b []byte) []byte {
	flag := func(flags ...bool) {
		for _, f := range flags {
			b = strconv.AppendBool(b, f)
		}
	}
	add := func(s spec) {
		flag(s.pod != nil)
		if s.pod != nil {
			b = append(b, s.pod.ResourceVersion...)
		}
		b = append(b, s.typ...)
	}
	flag(x.m.isOpen, x.m.isShut, x.m.known)
	for _, uid := range slices.Sorted(maps.Keys(x.m.records)) {
		r := x.m.records[uid]
		b = append(append(b, uid...), byte(r.state), byte(r.call), byte(len(r.done)), byte(r.grace.seconds))
		flag(r.static, r.hasConfig, r.begun, r.observed, r.undesired, r.deleted, r.evicted, r.restart, r.hasPending, r.ready)
		flag(r.grace.fromSpec, r.status != nil, r.orphan != nil, !r.cancelledAt.IsZero(), r.lastErr != nil, r.hot, r.place.In(), x.now.Before(r.failedAt.Add(hotRetry)))
		add(r.active)
		add(r.pending)
	}
	for _, name := range slices.Sorted(maps.Keys(x.m.names)) {
		b = fmt.Append(b, name, x.m.names[name].holders, x.m.names[name].waiting)
	}
	return b
}

// Broken returns the violated invariant of the machine, or "".
func (x *Machine) Broken() string {
	m := x.m
	for uid, r := range m.records {
		switch _, runs := x.running[uid]; {
		case runs != (r.call != CallNone):
			return fmt.Sprintf("%s: the machine and its calls disagree", uid)
		case runs && r.place.In():
			return fmt.Sprintf("%s runs and is due", uid)
		case !runs && r.ready && m.isOpen && (r.state != StateWaiting || m.names.next(r.fullName()) == uid):
			return fmt.Sprintf("%s is ready, but does not run", uid)
		case !r.hasPending && r.pending != spec{}, r.state == StateFinished && (r.hasPending || r.active != spec{}):
			return fmt.Sprintf("INV-12: %s still has a spec", uid)
		case r.state >= StateTerminated && len(r.done) > 0:
			return fmt.Sprintf("INV-14: %s has stopped, but a done channel is open", uid)
		case r.state >= StateTerminated && r.status != nil:
			return fmt.Sprintf("INV-15: %s has stopped, but still has a status function", uid)
		}
	}
	return m.brokenQueue()
}

// brokenQueue returns an error in the queue, or "": it must contain only records, and the first
// one must be the earliest.
func (m *machine) brokenQueue() string {
	queued, first := 0, time.Time{}
	for _, r := range m.records {
		switch {
		case r.place.In() == r.due.IsZero():
			return fmt.Sprintf("%s is missing in the queue", r.uid)
		case !r.place.In():
			continue
		case queued == 0 || r.due.Before(first):
			first = r.due
		}
		queued++
	}
	if next, _ := m.due.next(); queued != m.due.Len() || !next.Equal(first) {
		return fmt.Sprintf("%d of %d in the queue are records, the next at %v instead of %v", queued, m.due.Len(), next, first)
	}
	return ""
}

// Remaining describes remains of forgotten pods, or returns "".
func (x *Machine) Remaining() string {
	if n := len(x.m.records) + len(x.m.names) + x.m.due.Len() + len(x.running); n > 0 {
		return fmt.Sprintf("%d records, %d names, %d due, %d calls", len(x.m.records), len(x.m.names), x.m.due.Len(), len(x.running))
	}
	return ""
}

// Remaining describes the remaining state of the workers, or returns "".
func (w *Workers) Remaining() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.m
	if n := len(m.records) + len(m.names) + m.due.Len() + len(w.contexts) + len(w.running) + len(w.notes); n > 0 {
		return fmt.Sprintf("%d records, %d names, %d due, %d contexts, %d calls, %d notes",
			len(m.records), len(m.names), m.due.Len(), len(w.contexts), len(w.running), len(w.notes))
	}
	return ""
}
