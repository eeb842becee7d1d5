package pleg

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// A list that was in progress when a look ended may have seen the runtime before it: what
// it shows is not newer, and what it does not show is looked at again.
func TestListOfTheTimeOfALook(t *testing.T) {
	for _, shown := range []bool{true, false} {
		s := newScript(t)
		s.know(onePod("u", StateRunning))
		s.now = s.now.Add(s.c.cfg.RelistPeriod / 2)
		s.c.hint("u", s.now)
		look := s.start(inspectOne)
		s.now = s.now.Add(s.c.cfg.RelistPeriod)
		list := s.start(listAll)
		require.Empty(t, s.inspected(look, onePod("u", StateRunning)))
		p := s.c.pods["u"]
		require.Equal(t, list.seq, p.done)
		if shown {
			require.Empty(t, s.listed(list, onePod("u", StateExited)))
		} else {
			require.Empty(t, s.listed(list))
		}
		require.Equal(t, look.seq, p.viewSeq)
		require.Equal(t, StateRunning, p.view.Containers[0].State)
		require.True(t, p.present)
		require.Equal(t, ask{set: true, look: true, due: s.now, ticket: list.seq}, p.ask)
	}
}

// Who is waited for comes first.
func TestWaitersComeFirst(t *testing.T) {
	s := newScript(t)
	s.listed(s.start(listAll))
	s.c.hint("a", s.now)
	s.observe("b")
	require.Equal(t, types.UID("b"), s.start(inspectOne).uid)
	require.Equal(t, types.UID("a"), s.start(inspectOne).uid)
}

// A wish knows which queries are too old for it.
func TestTicket(t *testing.T) {
	s := newScript(t)
	s.c.seq = 7
	p := s.c.add("u")
	s.c.want(p, ask{hint: true, due: s.now})
	require.Equal(t, ask{set: true, hint: true, due: s.now, ticket: 7}, p.ask)
}

// A pod of which nothing is left is forgotten, unless a list is in progress that may still
// show it; when it was hinted at stays known, of not too many.
func TestDrop(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		p    pod
		list *query
		kept bool
	}{
		"nothing":              {pod{done: 5}, nil, false},
		"list began before":    {pod{done: 5}, &query{seq: 4}, true},
		"list began last":      {pod{done: 5}, &query{seq: 5}, true},
		"list began after":     {pod{done: 5}, &query{seq: 6}, false},
		"present":              {pod{present: true}, nil, true},
		"looked at":            {pod{looks: []*query{{}}}, nil, true},
		"to be looked at":      {pod{ask: ask{set: true}}, nil, true},
		"somebody waits":       {pod{waiters: []*waiter{{}}}, nil, true},
		"hinted at a time ago": {pod{hinted: now}, nil, false},
	} {
		s := newScript(t)
		p := c.p
		p.uid = "u"
		s.c.pods["u"], s.c.stale["u"], s.c.list.query = &p, &p, c.list
		s.c.drop(&p)
		require.Equal(t, c.kept, s.c.pods["u"] != nil, name)
		require.Equal(t, c.kept, s.c.stale["u"] != nil, name)
		require.Equal(t, p.hinted, s.c.recent["u"], name)
	}
	s := newScript(t)
	for i := range 2*manyHints + 1 {
		s.c.drop(&pod{uid: types.UID(fmt.Sprint(i)), hinted: now})
		require.Len(t, s.c.recent, i%manyHints+1)
	}
}

// What a list shows unchanged fulfils older wishes that came of nothing but doubt.
func TestSeenUnchanged(t *testing.T) {
	now := time.Unix(1000, 0)
	shown := ObservedFrom(onePod("u", StateRunning))
	for name, c := range map[string]struct{ before, after ask }{
		"none":             {ask{}, ask{}},
		"an older look":    {ask{set: true, look: true, ticket: 4, due: now}, ask{}},
		"an older request": {ask{set: true, request: true, ticket: 4, due: now}, ask{}},
		"a newer request":  {ask{set: true, request: true, ticket: 5, due: now}, ask{set: true, request: true, ticket: 5, due: now}},
		"an older hint":    {ask{set: true, hint: true, ticket: 4, due: now}, ask{set: true, hint: true, ticket: 4, due: now}},
		"an older retry":   {ask{set: true, retry: true, ticket: 4, due: now}, ask{set: true, retry: true, ticket: 4, due: now}},
		"a reinspection":   {ask{set: true, reinspect: true, ticket: 4, due: now.Add(time.Hour)}, ask{set: true, reinspect: true, ticket: 5, due: now}},
	} {
		s := newScript(t)
		s.c.seq = 5
		p := s.c.add("u")
		p.record, p.present, p.done, p.ask, p.fruitless, p.notBefore = shown, true, 3, c.before, 1, now.Add(time.Minute)
		s.c.seen(p, &shown, &query{seq: 5}, now)
		require.Equal(t, c.after, p.ask, name)
		require.Zero(t, p.fruitless, "list and look agree")
		require.Zero(t, p.notBefore)
		require.Equal(t, uint64(5), p.viewSeq)
	}
}

// A pod that a list does not show is gone, with the wishes that are older.
func TestUnseen(t *testing.T) {
	s := newScript(t)
	gone := time.Unix(1000, 0)
	for _, ticket := range []uint64{4, 5} {
		p := s.c.add("u")
		p.record, p.view, p.viewSeq, p.present, p.failures, p.stale = ObservedFrom(onePod("u", StateRunning)), ObservedFrom(onePod("u", StateRunning)), 2, true, 3, gone
		p.ask = ask{set: true, request: true, ticket: ticket, due: gone.Add(time.Hour)}
		s.c.seq = 6
		require.Len(t, s.c.unseen(p, &query{seq: 5, started: gone}, gone.Add(time.Second)), 4)
		want := pod{uid: "u", seq: 5, done: 6, viewSeq: 5, gone: gone}
		if ticket == 5 {
			want.ask = p.ask
			require.True(t, p.ask.set)
			p.turn = turn{}
		}
		require.Equal(t, want, *p)
		require.Equal(t, ticket == 5, s.c.pods["u"] != nil)
	}
	p := s.c.add("v")
	p.done = 9
	require.Empty(t, s.c.unseen(p, &query{seq: 8}, gone))
	require.Nil(t, s.c.pods["v"], "nobody knows more of it")
}

// What an older look finds of a pod that is gone says that it may be back.
func TestLookBehindTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		present bool
		r       result
		again   bool
	}{
		"it is there":     {false, result{status: onePod("u", StateRunning)}, true},
		"it is not":       {false, result{status: &PodStatus{UID: "u"}}, false},
		"nobody knows":    {false, result{err: ErrNotRunning}, false},
		"newer was there": {true, result{status: onePod("u", StateExited)}, false},
	} {
		s := newScript(t)
		s.listed(s.start(listAll))
		s.observe("u")
		c.r.query = s.start(inspectOne)
		p := s.c.pods["u"]
		p.seq, p.present = c.r.query.seq+1, c.present
		require.Empty(t, s.c.apply(c.r, s.now))
		require.Equal(t, c.again, p.ask.look, name)
	}
}

// A look that differs from what was recorded meanwhile is made again, at once.
func TestLookBesideAnother(t *testing.T) {
	s := newScript(t)
	s.know(onePod("u", StateRunning))
	p := s.c.pods["u"]
	q := &query{kind: inspectOne, uid: "u", seq: p.done, ask: ask{hint: true}}
	require.Empty(t, s.c.observed(p, q, onePod("u", StateExited), s.now))
	require.Equal(t, ask{set: true, hint: true, look: true, due: s.now, ticket: s.c.seq}, p.ask)
	require.Equal(t, StateRunning, p.record.Containers[0].State)
}

// A look fulfils what the newest list has asked for if it shows the same.
func TestLookThatShowsTheList(t *testing.T) {
	for name, c := range map[string]struct {
		listed uint64
		view   State
		kept   bool
	}{"the same": {4, StateExited, false}, "something else": {4, StateCreated, true}, "of an older list": {5, StateExited, true}} {
		s := newScript(t)
		p := s.c.add("u")
		p.view, p.viewSeq, p.listed, p.present = ObservedFrom(onePod("u", c.view)), 4, c.listed, true
		p.ask = ask{set: true, look: true, due: s.now}
		s.c.observed(p, &query{kind: inspectOne, uid: "u", seq: 3}, onePod("u", StateExited), s.now)
		require.Equal(t, c.kept, p.ask.look, name)
	}
}

// A status without names has those that a list has told.
func TestNamesOfAList(t *testing.T) {
	s := newScript(t)
	p := s.c.add("u")
	p.view = ObservedPod{UID: "u", Name: "web", Namespace: "shop"}
	s.c.seq = 3
	s.c.observed(p, &query{kind: inspectOne, uid: "u", seq: 3}, onePod("u", StateRunning), s.now)
	for _, got := range [][2]string{{p.status.Name, p.status.Namespace}, {p.record.Name, p.record.Namespace}, {p.view.Name, p.view.Namespace}} {
		require.Equal(t, [2]string{"web", "shop"}, got)
	}
}

// shows ignores when a status was seen, and names that it does not have.
func TestShows(t *testing.T) {
	status := onePod("u", StateRunning)
	status.Name, status.Namespace, status.ObservedAt = "web", "shop", time.Unix(1, 0)
	bare := *onePod("u", StateRunning)
	other := *status
	other.Name = "other"
	require.True(t, (&pod{status: status, present: true}).shows(*status))
	require.True(t, (&pod{status: status, present: true}).shows(bare))
	require.False(t, (&pod{status: status, present: true}).shows(other))
	require.False(t, (&pod{status: status, present: true}).shows(*onePod("u", StateExited)))
	require.False(t, (&pod{status: status, present: true}).shows(PodStatus{UID: "u"}))
	require.True(t, (&pod{}).shows(PodStatus{UID: "u"}))
	require.False(t, (&pod{present: true}).shows(PodStatus{UID: "u"}))
	require.False(t, (&pod{}).shows(bare))
}
