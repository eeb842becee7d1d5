package pleg

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

func cellPod(container, sandbox phase) *observed.ListedPod {
	p := &observed.ListedPod{UID: "u"}
	if container != absent {
		s := map[phase]observed.State{running: observed.StateRunning, exited: observed.StateExited, unknown: observed.StateUnknown}[container]
		p.Containers = []observed.ListedContainer{{ID: observed.ContainerID{Runtime: "r", ID: "c"}, Name: "main", State: s}}
	}
	if sandbox != absent {
		s := map[phase]observed.SandboxState{running: observed.SandboxReady, exited: observed.SandboxNotReady, unknown: observed.SandboxUnknown}[sandbox]
		p.Sandboxes = []observed.ListedSandbox{{ID: "s", State: s}}
	}
	return p
}

// P1: diff returns the events of every cell of the table, for containers and for sandboxes.
func TestDiffTable(t *testing.T) {
	phases := []phase{absent, running, exited, unknown}
	want := map[phase][4][]EventType{ // by old phase; new: absent, running, exited, unknown
		absent:  {nil, {Started}, {Died}, {changed}},
		running: {{Died, Removed}, nil, {Died}, {changed}},
		exited:  {{Removed}, {Started}, nil, {changed}},
		unknown: {{Died, Removed}, {Started}, {Died}, nil},
	}
	kinds := func(events []Event) []EventType {
		var out []EventType
		for _, e := range events {
			out = append(out, e.Type)
		}
		return out
	}
	for _, from := range phases {
		for i, to := range phases {
			events := diff("u", cellPod(from, absent), cellPod(to, absent))
			require.Equal(t, want[from][i], kinds(events), "container %d -> %d", from, to)
			for _, e := range events {
				require.Equal(t, Event{UID: "u", Type: e.Type, ID: "c", Container: "main"}, e)
			}
			events = diff("u", cellPod(absent, from), cellPod(absent, to))
			require.Equal(t, want[from][i], kinds(events), "sandbox %d -> %d", from, to)
			for _, e := range events {
				require.Equal(t, Event{UID: "u", Type: e.Type, ID: "s", Sandbox: true}, e)
			}
		}
	}
	created := cellPod(unknown, absent)
	created.Containers[0].State = observed.StateCreated
	require.Empty(t, diff("u", created, cellPod(unknown, absent)), "created counts as unknown")
	require.False(t, same(created, cellPod(unknown, absent)), "but the cache distinguishes them")
}

// The order of a list has no influence on the diff.
func TestDiffIgnoresOrder(t *testing.T) {
	a := &observed.ListedPod{Containers: []observed.ListedContainer{
		{ID: observed.ContainerID{ID: "1"}, State: observed.StateRunning}, {ID: observed.ContainerID{ID: "2"}, State: observed.StateExited},
	}, Sandboxes: []observed.ListedSandbox{{ID: "x", State: observed.SandboxReady}, {ID: "y"}}}
	b := &observed.ListedPod{Containers: slices.Clone(a.Containers), Sandboxes: slices.Clone(a.Sandboxes)}
	slices.Reverse(b.Containers)
	slices.Reverse(b.Sandboxes)
	require.True(t, same(a, b))
	require.Empty(t, diff("u", a, b))
	b.Containers[0].State = observed.StateRunning
	require.False(t, same(a, b))
}

// script drives a core by hand.
type script struct {
	t   *testing.T
	c   *core
	now time.Time
}

func newScript(t *testing.T) *script {
	cfg := Config{Runtime: struct{ Runtime }{}}
	require.NoError(t, cfg.complete())
	s := &script{t: t, c: newCore(cfg, false), now: time.Unix(1000, 0)}
	s.c.begin(s.now)
	return s
}

// start returns the next query, which must be of the kind.
func (s *script) start(k kind) *query {
	s.t.Helper()
	s.now = s.now.Add(time.Millisecond)
	q, _ := s.c.next(s.now)
	require.NotNil(s.t, q)
	require.Equal(s.t, k, q.kind)
	return q
}

func (s *script) idle() {
	s.t.Helper()
	q, _ := s.c.next(s.now)
	require.Nil(s.t, q)
}

func (s *script) listed(q *query, pods ...*observed.Pod) []Event {
	s.now = s.now.Add(time.Millisecond)
	var list []observed.ListedPod
	for _, p := range pods {
		list = append(list, p.Listed())
	}
	return s.c.apply(result{query: q, pods: list}, s.now)
}

func (s *script) inspected(q *query, p *observed.Pod) []Event {
	s.now = s.now.Add(time.Millisecond)
	return s.c.apply(result{query: q, status: p}, s.now)
}

func (s *script) observe(uid types.UID) *waiter { return s.observeAfter(uid, s.now) }

func (s *script) observeAfter(uid types.UID, after time.Time) *waiter {
	w := &waiter{ticket: s.c.seq, after: after, answer: make(chan answer, 1)}
	p := s.c.get(uid)
	p.waiters = append(p.waiters, w)
	s.c.schedule(p)
	return w
}

// relist advances the clock to the next list and performs it.
func (s *script) relist(pods ...*observed.Pod) []Event {
	s.t.Helper()
	s.now = s.now.Add(s.c.cfg.RelistPeriod)
	return s.listed(s.start(listAll), pods...)
}

func onePod(uid types.UID, states ...observed.State) *observed.Pod {
	p := &observed.Pod{UID: uid, Sandboxes: []observed.Sandbox{{ID: string(uid) + "-s", State: observed.SandboxReady, IPs: []string{"10.0.0.1"}}}}
	for i, st := range states {
		p.Containers = append(p.Containers, observed.Container{ID: observed.ContainerID{ID: string(uid) + string(rune('a'+i))}, Name: "c", State: st})
	}
	return p
}

// know creates the record of a pod.
func (s *script) know(p *observed.Pod) {
	s.t.Helper()
	s.relist(p)
	s.inspected(s.start(inspectOne), p)
	s.idle()
}

// A list that began before an inspection does not replace its result.
func TestOlderListDoesNotRollBack(t *testing.T) {
	s := newScript(t)
	old := onePod("u", observed.StateRunning)
	s.know(old)
	s.now = s.now.Add(time.Second)
	list := s.start(listAll)
	s.c.requestInspection(s.c.get("u"), Acted, s.now)
	inspection := s.start(inspectOne)
	now := onePod("u", observed.StateExited)
	require.Len(t, s.inspected(inspection, now), 1)
	require.Empty(t, s.listed(list, old))
	require.Equal(t, observed.StateExited, s.c.pods["u"].view.Containers[0].State)
	require.Equal(t, observed.StateExited, s.c.pods["u"].status.Containers[0].State)
	// It causes another inspection, which finds no change.
	require.Empty(t, s.inspected(s.start(inspectOne), now))
	s.idle()
}

// P11, tombstones: an inspection that began before the list without the pod does not restore it,
// but another one follows.
func TestOlderInspectionDoesNotResurrect(t *testing.T) {
	s := newScript(t)
	p := onePod("u", observed.StateRunning)
	s.know(p)
	s.c.requestInspection(s.c.get("u"), Acted, s.now)
	inspection := s.start(inspectOne)
	w := s.observe("u") // after the inspection began
	events := s.relist()
	require.ElementsMatch(t, []EventType{Died, Removed, Died, Removed}, []EventType{events[0].Type, events[1].Type, events[2].Type, events[3].Type})
	require.True(t, (<-w.answer).status.Empty())
	require.Empty(t, s.inspected(inspection, p))
	require.Equal(t, missing, s.c.pods["u"].state)
	require.Nil(t, s.c.pods["u"].status)
	require.Empty(t, s.inspected(s.start(inspectOne), &observed.Pod{UID: "u"}))
	require.Empty(t, s.c.pods)
}

// P6: a list without a change completes the requests from before its start.
func TestRequestServedByList(t *testing.T) {
	s := newScript(t)
	s.c.maxSlots = 1
	p, other := onePod("u", observed.StateRunning), onePod("o", observed.StateRunning)
	s.know(p)
	s.c.requestInspection(s.c.get("o"), Acted, s.now)
	busy := s.start(inspectOne)
	s.c.requestInspection(s.c.get("u"), Acted, s.now)
	s.idle() // no slot free
	s.relist(p, other)
	require.Len(t, s.inspected(busy, other), 2)
	s.idle() // neither the request nor the list's request is pending
}

// A list that keeps contradicting the inspections slows down the inspections that it causes.
func TestContradictionSlowsDown(t *testing.T) {
	s := newScript(t)
	actual, wrong := onePod("u", observed.StateRunning), onePod("u", observed.StateExited)
	s.know(actual)
	inspections := 0
	for range 100 {
		s.relist(wrong)
		if q, _ := s.c.next(s.now); q != nil {
			inspections++
			require.Empty(t, s.inspected(q, actual))
		}
	}
	require.Less(t, inspections, 60)
	require.False(t, s.c.pods["u"].notBefore.After(s.now.Add(2*time.Second)), "the status is right soon after the end of a contradiction")
	require.Empty(t, s.relist(actual))
	s.idle()
	// Once they agree, a change is inspected without delay.
	s.relist(wrong)
	require.Len(t, s.inspected(s.start(inspectOne), wrong), 1)
}

// A request with Expected does not shorten the pause after a failed inspection.
func TestReinspectObeysBackoff(t *testing.T) {
	s := newScript(t)
	p := onePod("u", observed.StateRunning)
	s.know(p)
	s.c.requestInspection(s.c.get("u"), Expected, s.now)
	inspections := 0
	for range 100 {
		if q, _ := s.c.next(s.now); q != nil {
			require.Equal(t, inspectOne, q.kind)
			inspections++
			s.c.apply(result{query: q, err: errors.New("no")}, s.now)
		}
		s.relist(p)
	}
	require.Less(t, inspections, 12)
}

// Pods with waiters come first, all others in order of due time.
func TestScheduleOrder(t *testing.T) {
	s := newScript(t)
	s.listed(s.start(listAll))
	s.c.requestInspection(s.c.get("late"), Acted, s.now.Add(time.Millisecond))
	s.c.requestInspection(s.c.get("first"), Acted, s.now)
	s.c.requestInspection(s.c.get("second"), Acted, s.now)
	w := s.observe("urgent")
	s.c.requestInspection(s.c.get("third"), Acted, s.now)
	abandoned := s.observe("abandoned")
	s.c.abandon("abandoned", abandoned)
	var order []types.UID
	for range 5 {
		order = append(order, s.start(inspectOne).uid)
	}
	require.Equal(t, []types.UID{"urgent", "first", "second", "third", "late"}, order)
	s.idle()
	require.NotContains(t, s.c.pods, types.UID("abandoned"))
	s.c.abandon("abandoned", abandoned) // the result and the end of the wait may cross
	require.Empty(t, w.answer)
}

// P14: only addresses survive the removal of the network.
func TestKeepIPs(t *testing.T) {
	old := &observed.Pod{IPs: []string{"10.0.0.9"}}
	for name, c := range map[string]struct {
		s    observed.Pod
		want []string
	}{
		"own":                   {observed.Pod{IPs: []string{"10.0.0.1"}, Sandboxes: []observed.Sandbox{{State: observed.SandboxReady}}}, []string{"10.0.0.1"}},
		"of the sandbox":        {observed.Pod{Sandboxes: []observed.Sandbox{{State: observed.SandboxReady, IPs: []string{"10.0.0.2"}}}}, []string{"10.0.0.2"}},
		"no sandbox ready":      {observed.Pod{Sandboxes: []observed.Sandbox{{State: observed.SandboxNotReady}}}, []string{"10.0.0.9"}},
		"ready without one":     {observed.Pod{Sandboxes: []observed.Sandbox{{State: observed.SandboxReady}}}, nil},
		"older one still ready": {observed.Pod{Sandboxes: []observed.Sandbox{{State: observed.SandboxNotReady}, {State: observed.SandboxReady}}}, nil},
		"gone":                  {observed.Pod{}, nil},
	} {
		require.Equal(t, c.want, keepIPs(&c.s, old), name)
		if name == "no sandbox ready" {
			require.Nil(t, keepIPs(&c.s, nil))
		}
	}
}

// E3: the decisions about the stream.
func TestStreamDecisions(t *testing.T) {
	now := time.Unix(1000, 0)
	s := stream{state: StreamClosed, next: now}
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		require.True(t, s.due(now))
		s.opened(now)
		require.False(t, s.settle(now.Add(time.Second-1), 1))
		s.ended(errors.New("x"), now)
		require.Equal(t, now.Add(pause*time.Second), s.wake())
		now = s.next
	}
	s.opened(now)
	require.True(t, s.settle(now.Add(time.Second), 5))
	require.False(t, s.settle(now.Add(time.Second), 5), "only once")
	s.listed(5, now)
	require.Equal(t, Generic, s.mode, "that list began before the stream settled")
	s.listed(6, now)
	require.Equal(t, Evented, s.mode)
	now = now.Add(streamStable)
	s.ended(errors.New("x"), now)
	require.Equal(t, Generic, s.mode)
	require.Equal(t, 1, s.attempts, "a stable stream starts the count anew")

	s.opened(now)
	s.ended(ErrNoEvents, now)
	require.Equal(t, StreamUnsupported, s.state)
	require.False(t, s.due(now.Add(streamProbe-1)))
	require.True(t, s.due(now.Add(streamProbe)))
	s.recovered(now)
	require.True(t, s.due(now))
}

// E7: the deadline follows the mode, without a gap after the fall back.
func TestHealthDeadline(t *testing.T) {
	s := newScript(t)
	t0 := s.now
	h := s.c.health()
	h.Running = true
	require.ErrorIs(t, h.Err(t0), ErrUnhealthy)
	s.c.list.at = t0
	check := func(want time.Duration) {
		t.Helper()
		h := s.c.health()
		h.Running = true
		require.NoError(t, h.Err(t0.Add(want)))
		require.ErrorIs(t, h.Err(t0.Add(want+1)), ErrUnhealthy)
	}
	check(3 * time.Minute)
	s.c.stream.enter(Evented, t0)
	check(10 * time.Minute)
	s.c.stream.enter(Generic, t0.Add(299*time.Second))
	check(299*time.Second + 3*time.Minute)
	s.c.stream.mode = Evented
	s.c.stream.enter(Generic, t0.Add(9*time.Minute))
	check(10 * time.Minute)
	h.Running = false
	require.ErrorIs(t, h.Err(t0), ErrNotRunning)
}

// A request starts an inspection beside a running one, which may be too old, whether a list
// requests an inspection before or after it.
func TestRequestBesideListRequest(t *testing.T) {
	request := func(s *script) { s.c.requestInspection(s.c.get("u"), Acted, s.now) }
	list := func(s *script) { s.relist(onePod("u", observed.StateExited)) }
	for name, steps := range map[string][]func(*script){
		"request, list": {request, list},
		"list, request": {list, request},
		"both, list":    {request, list, list},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.know(onePod("u", observed.StateRunning))
			request(s)
			old := s.start(inspectOne)
			s.now = s.now.Add(s.c.cfg.RelistPeriod)
			for _, step := range steps {
				step(s)
			}
			inspection := s.start(inspectOne)
			require.Equal(t, types.UID("u"), inspection.uid)
			require.NotSame(t, old, inspection)
			require.Len(t, s.inspected(inspection, onePod("u", observed.StateExited)), 1)
			require.Empty(t, s.inspected(old, onePod("u", observed.StateRunning)))
		})
	}
}

// The absence of a pod in a list is ignored if an inspection of the pod began after the list:
// the list may be older.
func TestListOlderThanInspectionIsIgnored(t *testing.T) {
	s := newScript(t)
	s.know(onePod("u", observed.StateRunning))
	s.now = s.now.Add(s.c.cfg.RelistPeriod)
	list := s.start(listAll)
	s.c.hint("u", s.now)
	inspection := s.start(inspectOne)
	require.Empty(t, s.listed(list))
	require.Equal(t, inspected, s.c.pods["u"].state)
	require.Empty(t, s.inspected(inspection, onePod("u", observed.StateRunning)))
	require.Len(t, s.inspected(s.start(inspectOne), &observed.Pod{UID: "u"}), 4, "the list requested another inspection")
}

// The end replies to every waiter, closes the stream, and leaves no running inspection in the
// health.
func TestEndForgetsInspections(t *testing.T) {
	s := newScript(t)
	s.know(onePod("u", observed.StateRunning))
	w := s.observe("u")
	s.start(inspectOne)
	require.NotEmpty(t, s.c.pods["u"].inspections)
	s.c.stream.state = StreamOpen
	s.c.end(ErrNotRunning, s.now)
	require.Equal(t, StreamClosed, s.c.stream.state)
	require.ErrorIs(t, (<-w.answer).err, ErrNotRunning)
	require.Empty(t, s.c.pods["u"].inspections)
	require.Empty(t, s.c.pods["u"].waiters)
	require.Empty(t, s.c.slots)
	s.observe("unknown")
	s.c.end(ErrNotRunning, s.now)
	require.Nil(t, s.c.pods["unknown"], "its record was dropped")
}

// The record of a pod that went away during a list is dropped with that list, also when the list
// fails. Thus an outage does not accumulate records.
func TestListThatFailsLeavesNoTombstone(t *testing.T) {
	s := newScript(t)
	s.know(onePod("u", observed.StateRunning))
	s.now = s.now.Add(s.c.cfg.RelistPeriod)
	list := s.start(listAll)
	s.c.hint("u", s.now)
	require.Len(t, s.inspected(s.start(inspectOne), &observed.Pod{UID: "u"}), 4)
	require.Contains(t, s.c.pods, types.UID("u"), "the list may still show it")
	require.Empty(t, s.c.apply(result{query: list, err: errors.New("away")}, s.now))
	require.Empty(t, s.c.pods)
}

// Listed pods without a UID, or without sandboxes and containers, are ignored.
func TestEmptyListEntriesAreIgnored(t *testing.T) {
	s := newScript(t)
	require.Empty(t, s.relist(onePod("", observed.StateRunning), &observed.Pod{UID: "empty"}))
	require.Empty(t, s.c.pods)
	s.idle()
}

// Queries change states according to the table of podState.
func TestPodStates(t *testing.T) {
	entry := onePod("u", observed.StateRunning).Listed()
	queries := []func(*core, *pod, *query){
		func(c *core, p *pod, q *query) { c.seen(p, &entry, q, q.started) },
		func(c *core, p *pod, q *query) { c.unseen(p, q, q.started) },
		func(c *core, p *pod, q *query) { c.observed(p, q, onePod("u", observed.StateRunning), q.started) },
		func(c *core, p *pod, q *query) { c.observed(p, q, &observed.Pod{}, q.started) },
	}
	for state, want := range map[podState][4]podState{
		unseen:      {uninspected, missing, inspected, missing},
		uninspected: {uninspected, missing, inspected, missing},
		inspected:   {inspected, missing, inspected, missing},
		missing:     {uninspected, missing, inspected, missing},
	} {
		for i, apply := range queries {
			s := newScript(t)
			p := s.c.get("u")
			if p.state = state; state == inspected {
				p.status, p.record = onePod("u", observed.StateRunning), entry
			}
			apply(s.c, p, s.c.query(listAll, s.now))
			require.Equal(t, want[i], p.state, "state %d, query %d", state, i)
			require.Equal(t, p.state == inspected, p.status != nil)
			require.Equal(t, p.state == missing, !p.missingAt.IsZero())
		}
	}
}

// A status without names gets the names of the list.
func TestNamesOfAList(t *testing.T) {
	s := newScript(t)
	p := s.c.get("u")
	p.view = observed.ListedPod{UID: "u", Name: "web", Namespace: "shop"}
	s.c.seq = 3
	s.c.observed(p, &query{kind: inspectOne, uid: "u", seq: 3}, onePod("u", observed.StateRunning), s.now)
	for _, got := range [][2]string{{p.status.Name, p.status.Namespace}, {p.record.Name, p.record.Namespace}, {p.view.Name, p.view.Namespace}} {
		require.Equal(t, [2]string{"web", "shop"}, got)
	}
}

func TestStrings(t *testing.T) {
	require.Equal(t, []string{"generic", "evented"}, []string{Generic.String(), Evented.String()})
	require.Equal(t, []string{"none", "closed", "opening", "open", "unsupported"}, []string{StreamNone.String(),
		StreamClosed.String(), StreamOpening.String(), StreamOpen.String(), StreamUnsupported.String()})
	require.Equal(t, "u pod sync", Event{UID: "u", Type: PodSync}.String())
	require.Equal(t, "u died container web c1", Event{UID: "u", Type: Died, ID: "c1", Container: "web"}.String())
	require.Equal(t, "u started sandbox s1", Event{UID: "u", Type: Started, ID: "s1", Sandbox: true}.String())
}
