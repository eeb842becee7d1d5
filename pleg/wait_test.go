package pleg

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

// Abandoned waiters leave no state and cost at most one inspection.
func TestAbandonedWaiters(t *testing.T) {
	s := newScript(t)
	s.listed(s.start(listAll))
	var ws []*waiter
	for range 1000 {
		ws = append(ws, s.observe("u"))
	}
	inspection := s.start(inspectOne)
	s.idle()
	for _, w := range ws {
		s.c.abandon("u", w)
	}
	require.Empty(t, s.c.pods["u"].waiters)
	s.inspected(inspection, &observed.Pod{UID: "u"})
	require.Empty(t, s.c.pods)
	require.Zero(t, s.c.dueQueue.Len())
	s.idle()
}

// A running inspection is new enough if it began after the given moment, even if it began before
// the call of Observe.
func TestInspectionInProgressIsNewEnough(t *testing.T) {
	s := newScript(t)
	p := onePod("u", observed.StateRunning)
	s.know(p)
	acted := s.now
	s.c.hint("u", s.now)
	inspection := s.start(inspectOne)
	w := s.observeAfter("u", acted)
	s.idle()
	s.inspected(inspection, p)
	require.Equal(t, inspection.started, (<-w.answer).status.ObservedAt)
	s.idle()
}

// A list without a change does not complete a pending hint, because a list has less detail.
func TestHintsOutliveLists(t *testing.T) {
	s := newScript(t)
	p := onePod("u", observed.StateRunning)
	s.know(p)
	s.c.hint("u", s.now)
	s.inspected(s.start(inspectOne), p)
	s.c.hint("u", s.now)
	s.idle()
	s.relist(p)
	s.now = s.now.Add(hintWindow)
	s.inspected(s.start(inspectOne), p)
	s.idle()
}

// Removed pods leave no state.
func TestRemovedPodsAreForgotten(t *testing.T) {
	s := newScript(t)
	for i := range 1000 {
		p := onePod("u", observed.StateRunning)
		s.know(p)
		s.relist()
		unknown := types.UID(fmt.Sprint("unknown", i))
		s.c.hint(unknown, s.now)
		s.inspected(s.start(inspectOne), &observed.Pod{UID: unknown})
		require.Contains(t, s.c.recent, unknown)
	}
	require.Empty(t, s.c.pods)
	require.Empty(t, s.c.stale)
	require.Empty(t, s.c.slots)
	require.Zero(t, s.c.dueQueue.Len())
	require.LessOrEqual(t, len(s.c.recent), manyHints)
}

// Events of many pods that do not exist cost a bounded number of records and one list, which
// covers the dropped ones: also if a list is running that began before them.
func TestHintsOfUnknownPodsAreBounded(t *testing.T) {
	s := newScript(t)
	p := onePod("u", observed.StateRunning)
	s.know(p)
	flood := func() {
		for i := range 100_000 {
			s.c.hint(types.UID(fmt.Sprint("unknown", i)), s.now)
		}
		require.Len(t, s.c.pods, maxUnlisted+1)
	}
	flood()
	s.c.hint("u", s.now)
	s.now = s.now.Add(s.c.cfg.RelistPeriod)
	list := s.start(listAll)
	inspections := map[types.UID]*query{}
	for range maxInspections {
		q := s.start(inspectOne)
		inspections[q.uid] = q
	}
	s.idle()
	for uid, q := range inspections {
		s.inspected(q, &observed.Pod{UID: uid})
	}
	for q, _ := s.c.next(s.now); q != nil; q, _ = s.c.next(s.now) {
		if q.uid == "u" {
			s.inspected(q, p)
		} else {
			s.inspected(q, &observed.Pod{UID: q.uid})
		}
	}
	s.c.stream.mode = Evented
	flood()
	s.listed(list, p)
	require.Equal(t, s.now.Add(s.c.cfg.RelistPeriod), s.c.list.next, "the running list does not cover the hints")
	s.now = s.c.list.next
	s.listed(s.start(listAll), p)
	require.Equal(t, s.now.Add(s.c.cfg.EventedRelistPeriod), s.c.list.next)
	require.Len(t, s.c.pods, 1)
}
