package writer

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/status"
)

// What a sink has after a patch is what it answered, or what was observed meanwhile if that
// is newer. Where that is not what was written, it is written anew, unless the sink stays
// by what it had.
func TestPatched(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "app")
	says := func(message string) *v1.PodStatus {
		s := status.Normalize(pod, v1.PodStatus{Message: message})
		return &s
	}
	type there struct{ version, message string }
	for name, c := range map[string]struct {
		base     *there
		answer   there
		has      there
		differs  bool
		settled  bool
		replaced bool // what it has is what was written, in the same memory
	}{
		"as written":                       {base: &there{"5", "old"}, answer: there{"6", "new"}, has: there{"6", "new"}, replaced: true},
		"not taken":                        {base: &there{"5", "old"}, answer: there{"6", "old"}, has: there{"6", "old"}, settled: true},
		"made something else of it":        {base: &there{"5", "old"}, answer: there{"6", "other"}, has: there{"6", "other"}, differs: true},
		"seen before the answer":           {base: &there{"6", "new"}, answer: there{"6", "new"}, has: there{"6", "new"}, replaced: true},
		"others came after it":             {base: &there{"7", "other"}, answer: there{"6", "new"}, has: there{"7", "other"}, differs: true},
		"others went back after it":        {base: &there{"7", "old"}, answer: there{"6", "new"}, has: there{"7", "old"}, differs: true},
		"others left it alone after it":    {base: &there{"7", "new"}, answer: there{"6", "new"}, has: there{"7", "new"}, replaced: true},
		"what was seen said nothing":       {answer: there{"6", "new"}, has: there{"6", "new"}, replaced: true},
		"versions that cannot be compared": {base: &there{"z", "other"}, answer: there{"y", "new"}, has: there{"y", "new"}, replaced: true},
	} {
		// Something was refused before, and others had changed something: neither counts now.
		s := slot{pod: pod, status: says("new"), version: 2, differs: true, settled: says("refused before")}
		before := s.settled
		if c.base != nil {
			s.base = &known{version: c.base.version, status: says(c.base.message)}
		}
		asked := call{kind: callPatch, version: 2, old: says("old"), new: says("new")}
		s.patched(asked, answer{pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID, ResourceVersion: c.answer.version}, Status: *says(c.answer.message)}, now: now})
		require.Equal(t, c.has, there{s.base.version, s.base.status.Message}, name)
		require.Equal(t, c.differs, s.differs, name)
		require.Equal(t, c.replaced, s.base.status == asked.new, name)
		switch {
		case c.replaced:
			require.Nil(t, s.settled, name)
		case c.settled:
			require.Same(t, s.base.status, s.settled, name)
		default:
			require.Same(t, before, s.settled, name)
		}
		require.Equal(t, uint64(2), s.written, name)
	}
}

// A failed call that says the pod is not there is its removal only where that was to come.
func TestDoneWithoutPod(t *testing.T) {
	for name, c := range map[string]struct {
		s    slot
		kind callKind
		err  error
		gone bool
	}{
		"removed by us":            {slot{}, callDelete, nil, true},
		"removed by others":        {slot{}, callDelete, status.ErrNotFound, true},
		"not removed":              {slot{finished: true, deleting: true}, callDelete, errors.New("failed"), false},
		"removed before we could":  {slot{finished: true, deleting: true}, callPatch, status.ErrNotFound, true},
		"nobody wanted it removed": {slot{finished: true}, callPatch, status.ErrNotFound, false},
		"something is left of it":  {slot{deleting: true}, callGet, status.ErrNotFound, false},
		"a mirror":                 {slot{finished: true, deleting: true, mirror: true}, callGet, status.ErrNotFound, false},
		"a receiver's":             {slot{finished: true, deleting: true, receives: true}, callReceive, status.ErrNotFound, false},
		"it fails":                 {slot{finished: true, deleting: true}, callGet, errors.New("failed"), false},
	} {
		c.s.pod, c.s.status = podOf(v1.RestartPolicyAlways, "app"), &v1.PodStatus{}
		require.Equal(t, c.gone, c.s.done(call{kind: c.kind}, answer{err: c.err, now: now}, testLimits), name)
		require.Equal(t, c.gone, c.s.failures == 0, name)
		require.Equal(t, !c.gone && !c.s.receives && errors.Is(c.err, status.ErrNotFound), c.s.absent, name)
	}
}

// A pod that the sink did not have and that it has when it is asked again is there.
func TestSlotIsThereAfterAll(t *testing.T) {
	w := newWorld(t, podOf(v1.RestartPolicyAlways, "app"))
	w.set(1)
	there := w.there
	w.there = nil
	require.True(t, w.begin())
	w.end(goesWell)
	require.True(t, w.slot.absent)
	w.there, w.now = there, w.now.Add(time.Hour)
	require.True(t, w.begin())
	w.end(goesWell)
	require.False(t, w.slot.absent)
	require.True(t, w.slot.untold(), "it can be told now")
}

// A status that was set while the sink was asked, and that it has already, leaves nothing
// that it is behind of.
func TestNothingIsBehind(t *testing.T) {
	w := newWorld(t, podOf(v1.RestartPolicyAlways, "app"))
	w.set(1)
	w.settle()
	w.slot.base = nil
	w.slot.again(w.now)
	w.slot.takeBehind()
	require.True(t, w.begin())
	w.now = w.now.Add(time.Second)
	same := *w.slot.status
	w.slot.set(w.pod, &same, w.now)
	w.end(goesWell)
	w.slot.busy = true // the turn goes on
	_, more := w.slot.next(w.facts())
	require.False(t, more)
	require.Equal(t, w.slot.version, w.slot.written)
	require.True(t, w.slot.since.IsZero() && w.slot.sinceNext.IsZero())
	require.Equal(t, time.Second, w.slot.takeBehind())
	require.Zero(t, w.slot.takeBehind(), "it is told once")
	w.slot.accepted(w.slot.version, w.now)
	require.Zero(t, w.slot.takeBehind(), "it was not behind")
}

// What was set before a call belongs to it, what was set during it does not.
func TestSinceTheCall(t *testing.T) {
	w := newWorld(t, podOf(v1.RestartPolicyAlways, "app"))
	w.set(1)
	require.True(t, w.begin())
	w.now = w.now.Add(time.Second)
	w.set(2)
	w.end(goesWell)
	require.True(t, w.begin())
	require.Equal(t, callPatch, w.call.kind)
	w.now = w.now.Add(time.Second)
	w.set(3)
	w.end(goesWell)
	require.Equal(t, w.now, w.slot.since)
	require.Equal(t, 2*time.Second, w.slot.takeBehind())
}

// A Receiver has what it was handed.
func TestSlotOfReceiver(t *testing.T) {
	w := newWorld(t, podOf(v1.RestartPolicyAlways, "app"))
	w.slot.receives = true
	w.set(1)
	require.Equal(t, urgentTransition, w.slot.urgency())
	c, ok := w.slot.next(w.facts())
	require.True(t, ok)
	require.False(t, w.slot.done(c, answer{now: w.now}, testLimits))
	require.Equal(t, urgentDetail, w.slot.urgency())
	require.Equal(t, w.slot.version, w.slot.written)
}

// What is seen of a pod ends a pause only where the sink did not have the pod, and cannot
// take back that it is to be deleted.
func TestObservedLate(t *testing.T) {
	s := slot{pod: podOf(v1.RestartPolicyAlways, "app"), ref: status.Ref{UID: "uid"}, deleting: true, failures: 1, retryAt: now}
	old := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid", ResourceVersion: "1"}}
	s.observed(old)
	require.Equal(t, now, s.retryAt)
	require.True(t, s.deleting && s.ready)
	require.Nil(t, s.base, "the sink is asked")
}

// A mirror that goes away is not written to when it was not before.
func TestObservedMirrorThatGoes(t *testing.T) {
	static := podOf(v1.RestartPolicyAlways, "app")
	mirror := static.DeepCopy()
	mirror.UID, mirror.Annotations = "new", map[string]string{"kubernetes.io/config.mirror": ""}
	s := slot{pod: static, mirror: true, ref: status.Ref{UID: "old"}}
	other := mirror.DeepCopy()
	other.Name = "other"
	s.observed(other)
	require.EqualValues(t, "old", s.ref.UID)
	going := mirror.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: now}
	s.observed(going)
	require.EqualValues(t, "old", s.ref.UID)
	require.False(t, s.deleting)
	s.observed(mirror)
	require.EqualValues(t, "new", s.ref.UID)
}
