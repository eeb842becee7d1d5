package writer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var testLimits = limits{first: 200 * time.Millisecond, longest: 10 * time.Second, absent: time.Minute}

func is(t v1.PodConditionType, value v1.ConditionStatus) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: value}
}

func put(s *v1.PodStatus, c v1.PodCondition) {
	if place := podfacts.Condition(s.Conditions, c.Type); place != nil {
		*place = c
		return
	}
	s.Conditions = append(s.Conditions, c)
}

// world is a slot, the pod as a sink has it, and what is on its way between them.
type world struct {
	t      testing.TB
	slot   slot
	pod    *v1.Pod
	now    time.Time
	mayRun bool

	there    *v1.Pod // nil: there is none
	version  int
	seen     []*v1.Pod // by a watch, not yet told
	call     *call     // in progress
	result   *answer   // what it has come to, on its way
	blind    bool      // nobody watches
	stubborn bool      // the sink keeps its message, whatever it is told
	gone     bool      // the slot was told that the pod is no more
	patched  uint64    // newest version of a patch that was called
	// disruption: the patch in progress is made of a status with DisruptionTarget.
	// disrupted: the sink has to have that condition.
	disruption, disrupted bool
	calls                 int
}

func newWorld(t testing.TB) *world {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid", Generation: 1}}
	pod.Spec.Containers = []v1.Container{{Name: "app", Image: "image/app"}}
	w := &world{t: t, pod: pod, now: now, slot: slot{pod: pod}}
	w.there = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: map[string]string{}}}
	w.there.Status.Phase = v1.PodPending
	w.bump(w.there.Status)
	return w
}

// bump stores a new version of the pod at the sink.
func (w *world) bump(s v1.PodStatus) {
	w.version++
	pod := *w.there
	pod.Status, pod.ResourceVersion = *s.DeepCopy(), strconv.Itoa(w.version)
	w.there = &pod
	if !w.blind {
		w.seen = append(w.seen, w.there)
	}
}

// set states the n-th of several statuses.
func (w *world) set(n byte) {
	s := v1.PodStatus{Phase: v1.PodRunning, Message: fmt.Sprint("message ", n%3)}
	ready := v1.ConditionTrue
	switch n % 5 {
	case 0:
		s.Phase, ready = v1.PodPending, v1.ConditionFalse
	case 1:
		ready = v1.ConditionFalse
	case 4:
		s.Phase, ready = v1.PodFailed, v1.ConditionFalse
		s.Conditions = append(s.Conditions, is(v1.DisruptionTarget, v1.ConditionTrue))
	}
	if w.slot.status != nil && podfacts.IsTerminalPhase(w.slot.status.Phase) {
		s.Phase, ready = v1.PodFailed, v1.ConditionFalse // as Compute sees to
	}
	s.Conditions = append(s.Conditions, is(v1.PodReady, ready))
	s = status.Normalize(w.pod, s)
	w.slot.set(w.pod, &s, w.now)
}

func (w *world) facts() facts {
	return facts{pod: w.pod, mayStillRun: w.mayRun, now: w.now}
}

// begin starts the next call, if there is one.
func (w *world) begin() bool {
	if w.call != nil || w.gone {
		return false
	}
	if _, at, ok := w.slot.due(); !ok || at.After(w.now) {
		return false
	}
	c, ok := w.slot.next(w.facts())
	w.slot.busy = ok
	if !ok {
		return false
	}
	w.calls++
	switch c.kind {
	case callPatch:
		require.GreaterOrEqual(w.t, c.version, w.patched, "an older version was written")
		require.Equal(w.t, w.slot.version, c.version, "not the newest version was written")
		require.False(w.t, status.Equal(c.old, c.new), "nothing was written")
		if podfacts.IsTerminalPhase(c.new.Phase) && !podfacts.IsTerminalPhase(c.old.Phase) {
			require.False(w.t, w.mayRun && !w.slot.finished, "T28 the end was not kept back")
		}
		for _, condition := range append(c.old.Conditions, c.new.Conditions...) {
			require.Len(w.t, status.Own(&v1.PodStatus{Conditions: []v1.PodCondition{condition}}).Conditions, 1, "a condition of others is in the patch")
		}
		w.patched = c.version
		w.disruption = podfacts.Condition(w.slot.status.Conditions, v1.DisruptionTarget) != nil
	case callDelete:
		require.True(w.t, w.slot.finished, "T29 deleted before it was finished")
	}
	w.call = &c
	return true
}

// The ways in which a call can end.
const (
	goesWell byte = iota
	unheard       // it takes effect, and nobody hears of it
	fails
	conflicts
	outcomes
)

// act lets the call in progress take effect or not, whatever comes of it; the slot
// does not know yet.
func (w *world) act(outcome byte) {
	if w.call == nil || w.result != nil {
		return
	}
	c, a := *w.call, answer{}
	switch {
	case outcome == fails:
		a.err = errors.New("failed")
	case w.there == nil:
		a.err = status.ErrNotFound
	case c.kind == callGet:
		a.pod = w.there
	case outcome == conflicts, w.there.UID != c.ref.UID:
		a.err = status.ErrConflict
	case c.kind == callDelete:
		require.NotNil(w.t, w.there.DeletionTimestamp, "T29 deleted although nobody asked for it")
		require.True(w.t, podfacts.IsTerminalPhase(w.there.Status.Phase), "T29 deleted before its end was accepted")
		w.there = nil
	default:
		if podfacts.IsTerminalPhase(w.there.Status.Phase) && podfacts.IsTerminalPhase(c.old.Phase) {
			require.True(w.t, podfacts.IsTerminalPhase(c.new.Phase), "a terminal phase was left")
		}
		s := *status.Apply(&w.there.Status, c.old, c.new)
		ends := podfacts.IsTerminalPhase(s.Phase) && !podfacts.IsTerminalPhase(w.there.Status.Phase)
		w.disrupted = w.disrupted || ends && w.disruption
		if w.stubborn {
			s.Message = w.there.Status.Message
		}
		w.bump(s)
		a.pod = w.there
	}
	if outcome == unheard {
		a = answer{err: errors.New("lost")}
	}
	w.result = &a
}

// end brings the call in progress to its end.
func (w *world) end(outcome byte) {
	if w.call == nil {
		return
	}
	w.act(outcome)
	a := *w.result
	a.now = w.now
	w.gone = w.slot.done(*w.call, a, testLimits)
	w.slot.busy, w.call, w.result = false, nil, nil
}

// tell tells the slot what a watch has seen, if there is something.
func (w *world) tell() {
	if len(w.seen) > 0 {
		w.slot.aim(w.facts())
		w.slot.observed(w.seen[0])
		w.seen = w.seen[1:]
	}
}

// foreign changes the pod at the sink as others do.
func (w *world) foreign(n byte) {
	if w.there == nil {
		return
	}
	s := *w.there.Status.DeepCopy()
	if w.blind {
		n %= 2 // nobody could tell of the rest
	}
	switch n % 6 {
	case 0, 1:
		put(&s, is("example.com/gate", []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse}[n%2]))
	case 2:
		put(&s, is(v1.PodReady, v1.ConditionUnknown))
	case 3:
		s.Message = "by another"
	case 4:
		put(&s, is(v1.DisruptionTarget, v1.ConditionTrue))
		w.disrupted = true
	case 5:
		at := metav1.NewTime(w.now)
		w.there = w.there.DeepCopy()
		w.there.DeletionTimestamp = &at
	}
	w.bump(s)
}

// replace removes the pod at the sink, and maybe makes another of its name.
func (w *world) replace(again bool) {
	if w.there == nil {
		return
	}
	if w.there = nil; again {
		w.there = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.pod.Namespace, Name: w.pod.Name, UID: "another"}}
		w.bump(v1.PodStatus{Phase: v1.PodPending})
	}
}

// settle lets everything come to rest, with a sink that works.
func (w *world) settle() {
	for range 30 {
		for len(w.seen) > 0 {
			w.tell()
		}
		w.now = w.now.Add(time.Minute)
		w.slot.tick()
		for range 10 {
			if w.call == nil && !w.begin() {
				break
			}
			w.end(goesWell)
		}
	}
}

// check tells what has to hold at rest.
func (w *world) check() {
	if w.there == nil || w.there.UID != w.pod.UID || w.slot.version == 0 {
		return
	}
	if w.gone {
		w.t.Fatal("the slot was dropped although the pod is there")
	}
	calls := w.calls
	w.settle()
	require.Equal(w.t, calls, w.calls, "there is no rest")
	if w.stubborn {
		return
	}
	w.checkStatus(w.there.Status, *w.slot.status)
	require.Equal(w.t, w.slot.version, w.slot.written)
	require.False(w.t, w.slot.finished && w.there.DeletionTimestamp != nil && podfacts.IsTerminalPhase(w.there.Status.Phase), "it was not deleted")
}

// checkStatus tells what the sink has to have at rest of what is wanted.
func (w *world) checkStatus(there, wanted v1.PodStatus) {
	has, wants := podfacts.IsTerminalPhase(there.Phase), podfacts.IsTerminalPhase(wanted.Phase)
	held := wants && !has
	if held {
		require.True(w.t, w.mayRun && !w.slot.finished, "the end was not told")
	}
	if !held && has == wants {
		require.Equal(w.t, wanted.Phase, there.Phase)
		require.Equal(w.t, wanted.Message, there.Message)
	}
	ready := podfacts.Condition(wanted.Conditions, v1.PodReady).Status
	if has {
		ready = v1.ConditionFalse
	}
	require.Equal(w.t, ready, podfacts.Condition(there.Conditions, v1.PodReady).Status)
	disrupted := podfacts.Condition(there.Conditions, v1.DisruptionTarget) != nil
	require.Equal(w.t, w.disrupted, disrupted, "T21 disruption together with the end, and at no other time")
}

// play plays one step of a history.
func (w *world) play(step, n byte) {
	switch step % 12 {
	case 0, 1:
		w.set(n)
	case 2, 3:
		w.begin()
	case 4:
		w.end(goesWell)
	case 5:
		w.end(n % outcomes)
	case 6:
		w.act(n % outcomes)
	case 7:
		w.tell()
	case 8:
		w.foreign(n)
	case 9:
		w.now = w.now.Add(time.Duration(n) * 100 * time.Millisecond)
		if n%3 == 0 {
			w.slot.tick()
		}
	case 10:
		w.mayRun = n%2 == 0 && !w.slot.finished
	case 11:
		switch {
		case n%16 == 0:
			w.replace(n%32 == 0)
		case n%4 == 1 && w.slot.status != nil:
			w.mayRun = false
			s := *w.slot.status
			s.Phase = v1.PodFailed
			w.slot.finished = true
			w.slot.set(w.pod, &s, w.now)
		}
	}
}

// FuzzSlot: whatever happens in whatever order, a working sink is brought to the
// newest status in the end, nothing old and nothing foreign is ever written, and
// then there is rest.
func FuzzSlot(f *testing.F) {
	f.Add([]byte{0, 0, 2, 2, 0, 4, 0, 2, 0, 0, 1, 4, 0, 7, 0, 7, 0})
	f.Add([]byte{0, 0, 4, 10, 0, 2, 0, 4, 0, 2, 0, 4, 0, 10, 1, 9, 3})
	f.Add([]byte{0, 0, 2, 8, 5, 11, 1, 2, 0, 4, 0, 2, 0, 6, 1, 9, 9, 2, 0, 4, 0})
	f.Add([]byte{0, 0, 2, 2, 0, 4, 0, 2, 0, 6, 1, 0, 0, 9, 255, 8, 2, 7, 0, 7, 0})
	f.Add([]byte{0, 0, 2, 11, 32, 2, 0, 4, 0, 9, 90, 2, 0, 4, 0})
	f.Fuzz(func(t *testing.T, history []byte) { playHistory(t, history) })
}

// playHistory plays a history whose first byte says what kind of world it is in.
func playHistory(t *testing.T, history []byte) {
	w := newWorld(t)
	for i, b := range history[:min(len(history), 400)] {
		switch {
		case i == 0:
			w.blind, w.stubborn = b%3 == 1, b%3 == 2
		case i%2 == 0:
			w.play(history[i-1], b)
		}
	}
	w.settle()
	w.check()
}

// Histories at random, more than the seeds of the fuzz target are.
func TestSlotHistories(t *testing.T) {
	n := 5000
	if testing.Short() {
		n = 1500
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		history := make([]byte, 11+2*random.IntN(180))
		for i := range history {
			history[i] = byte(random.IntN(256))
		}
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("history %v", history)
				}
			}()
			playHistory(t, history)
		})
	}
}

// What the sink made of a write besides is written anew at the next resync, whether the
// answer says so or a watch before it.
func TestSlotWritesAnewWhatDiffers(t *testing.T) {
	for name, tell := range map[string]func(w *world){
		"the answer": func(w *world) { w.result.pod = w.there },
		"a watch before the answer": func(w *world) {
			for len(w.seen) > 0 {
				w.tell()
			}
		},
	} {
		w := newWorld(t)
		w.set(1)
		require.True(t, w.begin(), name)
		w.end(goesWell)
		require.True(t, w.begin(), name)
		w.act(goesWell)
		w.foreign(3)
		tell(w)
		w.end(goesWell)
		require.Zero(t, w.slot.failures, name)
		require.False(t, w.begin(), "%s: not before", name)
		w.slot.tick()
		require.True(t, w.begin(), name)
		w.end(goesWell)
		require.Equal(t, "message 1", w.there.Status.Message, name)
	}
}
