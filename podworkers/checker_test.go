package podworkers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
)

// checker watches what goes into the workers and what comes out, and fails when
// an invariant of the lifecycle does not hold. It keeps books of its own and
// looks at nothing inside.
type checker struct {
	t    testing.TB
	pods map[types.UID]*life
	ends map[types.UID]time.Time    // last end of a call, across lives (INV-16)
	done map[chan<- struct{}]int    // closed how often (INV-14)
	line map[string][]types.UID     // static pods that never started, in order
	runs map[string]map[string]bool // static pods that started, by full name
}

// life is one UID from the first update until it is forgotten.
type life struct {
	newest   *v1.Pod // of the last accepted update
	static   string  // full name
	ending   bool    // termination was requested
	finished bool
	stopped  bool // SyncTerminatingPod succeeded, or it was seen dead
	terminating,
	terminated bool // such a call has begun
	called  bool
	running Call
	grace   int64
}

func newChecker(t testing.TB) *checker {
	return &checker{
		t: t, pods: map[types.UID]*life{}, ends: map[types.UID]time.Time{}, done: map[chan<- struct{}]int{},
		line: map[string][]types.UID{}, runs: map[string]map[string]bool{},
	}
}

// updated notes an update before it is handed in. dead says what
// TerminalPodStopped would.
func (c *checker) updated(u Update, dead bool) {
	if u.Kill != nil && u.Kill.Done != nil {
		c.done[u.Kill.Done] += 0
	}
	uid := u.uid()
	l := c.pods[uid]
	if l == nil {
		l = &life{}
		c.pods[uid] = l
		l.stopped = dead && u.Pod != nil && podfacts.IsTerminalPhase(u.Pod.Status.Phase)
		l.ending = l.stopped
		if u.Pod != nil && podfacts.IsStatic(u.Pod) {
			l.static = podfacts.FullName(u.Pod)
			c.line[l.static] = append(c.line[l.static], uid)
		}
	} else if u.Type == UpdateCreate && l.ending {
		return // it belongs to the next life
	} else if l.newest == nil && u.Pod != nil && !asksForEnd(u) {
		return // likewise: what the runtime knows must go first
	}
	if l.finished {
		return
	}
	if u.Pod == nil || asksForEnd(u) {
		c.endRequested(uid)
	}
	if u.Pod != nil {
		l.newest = u.Pod
	}
}

// unwanted notes, before SyncKnownPods, that a pod is not in its argument.
func (c *checker) unwanted(uid types.UID) {
	if l := c.pods[uid]; l != nil && !l.finished {
		c.endRequested(uid)
	}
}

func (c *checker) endRequested(uid types.UID) {
	l := c.pods[uid]
	l.ending = true
	c.leaveLine(uid)
}

func (c *checker) leaveLine(uid types.UID) {
	l := c.pods[uid]
	c.line[l.static] = without(c.line[l.static], uid)
}

// began notes the begin of a call.
func (c *checker) began(uid types.UID, kind Call, w Work) {
	l := c.pods[uid]
	require.NotNil(c.t, l, "%s of %s, which nobody named", kind, uid)
	require.Equal(c.t, CallNone, l.running, "INV-1: %s of %s", kind, uid)
	require.False(c.t, l.finished, "INV-9: %s of %s", kind, uid)
	require.False(c.t, w.ActedAt.Before(c.ends[uid]), "INV-16: %s of %s", kind, uid)
	if kind != CallSyncTerminatingOrphan {
		require.Same(c.t, l.newest, w.Pod, "INV-4, INV-13: %s of %s", kind, uid)
	}
	switch kind {
	case CallSyncPod:
		require.False(c.t, l.ending, "INV-5: SyncPod of %s", uid)
		require.False(c.t, l.terminating || l.terminated, "INV-3, INV-7: SyncPod of %s", uid)
		c.startStatic(uid, l)
	case CallSyncTerminatingPod, CallSyncTerminatingOrphan:
		require.False(c.t, l.stopped || l.terminated, "INV-3: %s of %s", kind, uid)
		l.terminating, l.ending = true, true
	case CallSyncTerminatedPod:
		require.True(c.t, l.stopped, "INV-8: %s", uid)
		l.terminated = true
	}
	if kind == CallSyncTerminatingPod {
		require.GreaterOrEqual(c.t, w.GracePeriodSeconds, int64(1), "INV-6")
		require.True(c.t, l.grace == 0 || w.GracePeriodSeconds <= l.grace, "INV-6: %d after %d", w.GracePeriodSeconds, l.grace)
		l.grace = w.GracePeriodSeconds
	} else {
		require.Zero(c.t, w.GracePeriodSeconds)
		require.Nil(c.t, w.Status, "INV-15")
	}
	l.running, l.called = kind, true
}

// startStatic checks INV-11.
func (c *checker) startStatic(uid types.UID, l *life) {
	if l.static == "" || l.called {
		return
	}
	require.Empty(c.t, c.runs[l.static], "INV-11: %s starts beside another one", uid)
	require.Equal(c.t, uid, c.line[l.static][0], "INV-11: order of arrival")
	c.leaveLine(uid)
	c.runs[l.static] = map[string]bool{string(uid): true}
}

// over notes the end of a call, before the workers learn of it.
func (c *checker) over(uid types.UID, res result, now time.Time) {
	l := c.pods[uid]
	kind := l.running
	l.running = CallNone
	c.ends[uid] = now
	if res.err != nil {
		return
	}
	switch kind {
	case CallSyncPod:
		l.ending = l.ending || res.terminal
	case CallSyncTerminatingPod:
		l.stopped = true
	case CallSyncTerminatingOrphan:
		if l.newest == nil {
			c.forgotten(uid)
		}
	case CallSyncTerminatedPod:
		l.finished = true
		delete(c.runs[l.static], string(uid))
	}
}

// forgotten notes that the workers do not know the pod any more.
func (c *checker) forgotten(uid types.UID) {
	l := c.pods[uid]
	require.Equal(c.t, CallNone, l.running, "INV-1: %s forgotten while a call runs", uid)
	c.leaveLine(uid)
	delete(c.runs[l.static], string(uid))
	delete(c.pods, uid)
}

// closed notes that a done channel was closed.
func (c *checker) closed(done chan<- struct{}) {
	c.done[done]++
	require.Equal(c.t, 1, c.done[done], "INV-14: closed twice")
}

// settled checks that nothing is left once every pod is gone.
func (c *checker) settled() {
	for _, times := range c.done {
		require.Equal(c.t, 1, times, "INV-14: a done channel is still open")
	}
	require.Empty(c.t, c.pods, "INV-17: pods that do not come to an end")
}
