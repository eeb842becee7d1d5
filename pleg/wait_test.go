package pleg

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// Nothing is left of those who wait no longer, and they cost one look at most.
func TestAbandonedWaiters(t *testing.T) {
	s := newScript(t)
	s.listed(s.start(listAll))
	var ws []*waiter
	for range 10_000 {
		ws = append(ws, s.observe("u"))
	}
	look := s.start(inspectOne)
	s.idle()
	for _, w := range ws {
		s.c.abandon("u", w)
	}
	require.Empty(t, s.c.pods["u"].waiters)
	s.inspected(look, &PodStatus{UID: "u"})
	require.Empty(t, s.c.pods)
	require.Zero(t, s.c.todo.Len())
	s.idle()
}

// A look in progress that began after the moment somebody asks for is new enough, even
// if it began before the question.
func TestLookInProgressIsNewEnough(t *testing.T) {
	s := newScript(t)
	p := onePod("u", StateRunning)
	s.know(p)
	acted := s.now
	s.c.hint("u", s.now)
	look := s.start(inspectOne)
	w := s.observeAfter("u", acted)
	s.idle()
	s.inspected(look, p)
	require.Equal(t, look.started, (<-w.answer).status.ObservedAt)
	s.idle()
}

// Who asks for an old moment is answered from memory, unless nobody could look at the
// pod: a list that shows it does not tell that it is absent, and an error is no status.
func TestCached(t *testing.T) {
	s := newScript(t)
	require.Nil(t, s.c.cached("u", time.Time{}), "no list yet")
	s.relist()
	require.True(t, s.c.cached("u", time.Time{}).Empty())
	require.Nil(t, s.c.cached("u", s.c.list.at), "absent at that moment, not after it")

	p := onePod("u", StateRunning)
	s.relist(p)
	require.Nil(t, s.c.cached("u", time.Time{}), "listed, and not looked at")
	look := s.start(inspectOne)
	s.inspected(look, p)
	require.Len(t, s.c.cached("u", time.Time{}).Containers, 1)
	require.Nil(t, s.c.cached("u", look.started))

	s.c.hint("u", s.now)
	s.c.apply(result{query: s.start(inspectOne), err: errors.New("no")}, s.now)
	require.Nil(t, s.c.cached("u", time.Time{}), "the last look failed")
}

// A second look begins for whom the first is too old, and no third.
func TestSecondLook(t *testing.T) {
	s := newScript(t)
	p := onePod("u", StateRunning)
	s.know(p)
	early := s.observe("u")
	first := s.start(inspectOne)
	late := s.observe("u")
	second := s.start(inspectOne)
	later := s.observe("u")
	s.idle()

	// The first one ends last and saw the runtime earlier: nothing is rolled back.
	gone := onePod("u", StateExited)
	require.Len(t, s.inspected(second, gone), 1)
	for _, w := range []*waiter{early, late} {
		require.Equal(t, StateExited, (<-w.answer).status.Containers[0].State)
	}
	third := s.start(inspectOne)
	require.Empty(t, s.inspected(first, p))
	require.Equal(t, StateExited, s.c.pods["u"].status.Containers[0].State)

	// One that began before the record was made and differs from it proves nothing,
	// and its waiters get the next one.
	fourth := s.observe("u")
	next := s.start(inspectOne)
	require.Empty(t, s.inspected(third, gone))
	require.Equal(t, StateExited, (<-later.answer).status.Containers[0].State)
	require.Empty(t, s.inspected(next, p))
	require.Empty(t, fourth.answer)
	require.Empty(t, s.inspected(s.start(inspectOne), gone))
	require.Equal(t, StateExited, (<-fourth.answer).status.Containers[0].State)
	s.idle()
}

// A backlog of hints about a pod that is gone is few looks at it.
func TestHintsAboutNobody(t *testing.T) {
	s := newScript(t)
	s.relist()
	s.c.hint("gone", s.now)
	s.inspected(s.start(inspectOne), &PodStatus{UID: "gone"})
	require.Empty(t, s.c.pods)
	s.c.hint("gone", s.now)
	s.idle()
	s.now = s.now.Add(hintWindow)
	s.start(inspectOne)
}

// A list that shows nothing new is no answer to a hint that waits: a list has less detail.
func TestHintsOutliveLists(t *testing.T) {
	s := newScript(t)
	p := onePod("u", StateRunning)
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

// Nothing is left of pods that are gone.
func TestForgetsEverything(t *testing.T) {
	s := newScript(t)
	for i := range 1000 {
		p := onePod("u", StateRunning)
		s.know(p)
		s.relist()
		unknown := types.UID(fmt.Sprint("unknown", i))
		s.c.hint(unknown, s.now)
		s.inspected(s.start(inspectOne), &PodStatus{UID: unknown})
		require.Contains(t, s.c.recent, unknown)
	}
	require.Empty(t, s.c.pods)
	require.Empty(t, s.c.stale)
	require.Empty(t, s.c.slots)
	require.Zero(t, s.c.todo.Len())
	require.LessOrEqual(t, len(s.c.recent), manyHints)
}
