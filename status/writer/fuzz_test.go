package writer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/internal/podstatus"
	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/status/writer"
)

// stubborn is a sink that never changes the message of a pod.
type stubborn struct{ *statustest.Sink }

func (s stubborn) Patch(ctx context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
	kept := *new
	kept.Message = old.Message
	return s.Sink.Patch(ctx, ref, old, &kept)
}

// fuzzRig is the life of one pod at a sink: others change the pod, calls fail, and observations
// come late or never.
type fuzzRig struct {
	*rig
	pod           *v1.Pod
	prompt, blind bool // observations come before the result of the call; no observations
	stubborn      bool

	state           sync.Mutex       // guards the fields below
	seen            []*v1.Pod        // by a watch, not yet observed
	fault           statustest.Fault // of the next calls
	faults          byte
	meanwhile       byte // change by others between the next write and its result, plus 1
	finished, ended bool // Terminate was called; the sink's pod is in a terminal phase
	// disruption: the current patch comes from a status with DisruptionTarget. disrupted: the
	// sink must have that condition.
	disruption, disrupted bool
}

func (w *fuzzRig) called(c statustest.Call) statustest.Fault {
	fault, wanted, there := statustest.Fault{}, w.Get(w.pod.UID), w.current()
	w.state.Lock()
	defer w.state.Unlock()
	if w.faults > 0 {
		w.faults, fault = w.faults-1, w.fault
	}
	switch c.Op {
	case statustest.Patch:
		assert.False(w.t, podstatus.Equal(c.Old, c.New) && !w.stubborn, "a patch without a change")
		assert.Contains(w.t, []string{wanted.Message, c.Old.Message}, c.New.Message, "a patch with an older version")
		if podfacts.IsTerminalPhase(c.New.Phase) && !podfacts.IsTerminalPhase(c.Old.Phase) {
			assert.False(w.t, lookup(w.rig, w.mayRun)(w.pod.UID) && !w.finished, "T28 the end was written while containers may run")
		}
		for _, condition := range append(c.Old.Conditions, c.New.Conditions...) {
			assert.Len(w.t, podstatus.Own(&v1.PodStatus{Conditions: []v1.PodCondition{condition}}).Conditions, 1, "the patch contains a condition of another component")
		}
		w.disruption = podfacts.Condition(wanted.Conditions, v1.DisruptionTarget) != nil
	case statustest.Delete:
		assert.True(w.t, w.finished, "T29 deleted before it was finished")
		if there != nil && there.UID == w.pod.UID {
			assert.NotNil(w.t, there.DeletionTimestamp, "T29 deleted without a deletion request")
			assert.True(w.t, podfacts.IsTerminalPhase(there.Status.Phase), "T29 deleted before its end was accepted")
		}
	}
	return fault
}

func (w *fuzzRig) current() *v1.Pod { return w.rig.pod(w.pod.Name) }

func (w *fuzzRig) watch(pod *v1.Pod) {
	meanwhile := w.recordChange(pod)
	if w.prompt {
		w.Observe(pod)
	}
	if meanwhile > 0 {
		w.foreign(meanwhile - 1)
	}
}

// recordChange records a change of the pod at the sink. It returns the change that others make
// then.
func (w *fuzzRig) recordChange(pod *v1.Pod) (meanwhile byte) {
	w.state.Lock()
	defer w.state.Unlock()
	if pod.UID == w.pod.UID {
		ended := podfacts.IsTerminalPhase(pod.Status.Phase)
		assert.True(w.t, ended || !w.ended, "the phase changed after a terminal phase")
		w.disrupted = w.disrupted || ended && !w.ended && w.disruption
		w.ended = ended
	}
	if !w.blind && !w.prompt {
		w.seen = append(w.seen, pod)
	}
	meanwhile, w.meanwhile = w.meanwhile, 0
	return meanwhile
}

// observe passes on the first pod that a watch has seen.
func (w *fuzzRig) observe() bool {
	w.state.Lock()
	seen := w.seen
	w.seen = seen[min(1, len(seen)):]
	w.state.Unlock()
	if len(seen) > 0 {
		w.Observe(seen[0])
	}
	return len(seen) > 0
}

func (w *fuzzRig) locked(change func()) {
	w.state.Lock()
	defer w.state.Unlock()
	change()
}

func (w *fuzzRig) set(n byte) {
	s := v1.PodStatus{Phase: v1.PodRunning, Message: "message " + strconv.Itoa(int(n%3))}
	ready := v1.ConditionTrue
	switch n % 5 {
	case 0:
		s.Phase, ready = v1.PodPending, v1.ConditionFalse
	case 1:
		ready = v1.ConditionFalse
	case 4:
		s.Phase, ready = v1.PodFailed, v1.ConditionFalse
		s.Conditions = append(s.Conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue})
	}
	if old := w.Get(w.pod.UID); old != nil && podfacts.IsTerminalPhase(old.Phase) {
		s.Phase, ready = v1.PodFailed, v1.ConditionFalse // as Compute does
	}
	s.Conditions = append(s.Conditions, v1.PodCondition{Type: v1.PodReady, Status: ready})
	if n%8 == 7 {
		s.Conditions = append(s.Conditions, v1.PodCondition{Type: "example.com/stale", Status: v1.ConditionTrue})
	}
	require.NoError(w.t, w.Set(w.pod, s))
}

// foreign changes the pod at the sink as others do.
func (w *fuzzRig) foreign(n byte) {
	if w.blind {
		n %= 2 // the rest would stay unnoticed
	}
	w.sink.Change("ns", w.pod.Name, func(pod *v1.Pod) {
		set := func(t v1.PodConditionType, s v1.ConditionStatus) {
			if c := podfacts.Condition(pod.Status.Conditions, t); c != nil {
				c.Status = s
				return
			}
			pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: t, Status: s})
		}
		switch n % 6 {
		case 0, 1:
			set("example.com/gate", []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse}[n%2])
		case 2:
			set(v1.PodReady, v1.ConditionUnknown)
		case 3:
			pod.Status.Message = "by another"
		case 4:
			set(v1.DisruptionTarget, v1.ConditionTrue)
			w.locked(func() { w.disrupted = w.disrupted || pod.UID == w.pod.UID })
		case 5:
			pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
	})
}

func (w *fuzzRig) play(step, n byte) {
	switch step % 10 {
	case 0:
		w.set(n)
	case 1, 2:
		fault := []statustest.Fault{
			{Err: errors.New("failed")}, {LostAnswer: errors.New("lost")}, {Err: status.ErrConflict},
			{Latency: 500 * time.Millisecond}, {Latency: 3 * time.Second, LostAnswer: errors.New("lost")}, {Hang: true},
		}[n%6]
		w.locked(func() { w.faults, w.fault = 1+n/8%3, fault })
	case 3:
		w.locked(func() { w.meanwhile = 1 + n%6 })
	case 4:
		w.observe()
	case 5:
		w.foreign(n)
	case 6, 7:
		w.pass(time.Duration(n) * 100 * time.Millisecond)
	case 8:
		put(w.rig, w.mayRun, w.pod.UID, n%2 == 0)
	case 9:
		switch {
		case n%32 == 0:
			w.sink.Remove("ns", w.pod.Name)
			if n%64 == 0 {
				other := newPod(w.pod.Name)
				other.UID = "another"
				w.sink.Put(other)
			}
		case n%8 == 1 && w.Get(w.pod.UID) != nil:
			w.locked(func() { w.finished = true })
			require.NoError(w.t, w.Terminate(w.pod))
		}
	}
	w.pass(0)
}

// settle runs the rig until it stops changing, with a working sink.
func (w *fuzzRig) settle() {
	for range 10 {
		for w.observe() {
			w.pass(0)
		}
		w.pass(time.Minute)
	}
}

func (w *fuzzRig) check() {
	there, wanted := w.current(), w.Get(w.pod.UID)
	x, known := w.Explain(w.pod.UID)
	if there == nil || there.UID != w.pod.UID || !known && !w.finished {
		return
	}
	require.NotNil(w.t, wanted, "the pod was dropped although the sink has it")
	w.sink.ForgetCalls()
	w.settle()
	require.Empty(w.t, w.sink.Calls(), "further calls after the last write")
	if w.stubborn {
		return
	}
	require.Zero(w.t, x.Since)
	has, wants := podfacts.IsTerminalPhase(there.Status.Phase), podfacts.IsTerminalPhase(wanted.Phase)
	require.False(w.t, w.finished && there.DeletionTimestamp != nil && has, "the finished pod was not deleted")
	if wants && !has {
		require.True(w.t, lookup(w.rig, w.mayRun)(w.pod.UID) && !w.finished, "the end was not written")
	}
	if has == wants {
		require.Equal(w.t, wanted.Phase, there.Status.Phase)
		require.Equal(w.t, wanted.Message, there.Status.Message)
	}
	ready := value(wanted, v1.PodReady)
	if has {
		ready = "False"
	}
	require.Equal(w.t, ready, value(&there.Status, v1.PodReady))
	require.Equal(w.t, w.disrupted, podfacts.Condition(there.Status.Conditions, v1.DisruptionTarget) != nil, "T21 disruption is written only together with the end")
}

// FuzzWriter checks for every history that a working sink receives the newest status, no patch
// contains an older one or conditions of others, and then no further calls follow.
func FuzzWriter(f *testing.F) {
	f.Add([]byte{0, 0, 2, 1, 0, 0, 3, 6, 3, 4, 0, 4, 0})
	f.Add([]byte{0, 0, 4, 8, 0, 0, 2, 8, 1, 6, 100})
	f.Add([]byte{0, 0, 2, 5, 5, 9, 1, 1, 1, 6, 9})
	f.Add([]byte{1, 0, 2, 1, 1, 0, 0, 6, 255, 5, 2, 4, 0, 4, 0})
	f.Add([]byte{3, 0, 2, 9, 32, 6, 90})
	random := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		history := make([]byte, 11+2*random.IntN(180))
		for i := range history {
			history[i] = byte(random.IntN(256))
		}
		f.Add(history)
	}
	f.Fuzz(playHistory)
}

// playHistory executes a history. Its first byte selects the kind of rig.
func playHistory(t *testing.T, history []byte) {
	w := &fuzzRig{}
	bubble(t, func(cfg *writer.Config) {
		if len(history) > 0 {
			w.prompt, w.blind, w.stubborn = history[0]%4 == 0, history[0]%4 == 1, history[0]%4 == 2
		}
		if w.stubborn {
			cfg.Sinks = sinks(stubborn{cfg.Sinks[0].Sink.(*statustest.Sink)})
		}
	}, func(r *rig) {
		w.rig, w.pod = r, r.sink.Put(newPod("a", []string{}...))
		r.sink.Watch(w.watch)
		r.sink.Fail(w.called)
		for i := 1; i+1 < min(len(history), 400); i += 2 {
			w.play(history[i], history[i+1])
		}
		w.locked(func() { w.faults = 0 })
		w.settle()
		w.check()
	})
}
