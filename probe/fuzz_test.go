package probe

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// model is one worker, its environment, and a naive model of it. The model keeps the history of
// the instance and computes the result from the start each time.
type model struct {
	t    *testing.T
	w    *worker
	now  time.Time
	pod  *v1.Pod
	have *v1.PodStatus
	c    v1.ContainerStatus

	instance  int
	began     metav1.Time
	executing bool
	// seen has the outcomes of the instance, and Unknown for each round in a stopped state.
	// inherited is true if it ran before the agent.
	seen      []Verdict
	about     string
	inherited bool
	restored  Verdict
	passed    bool // a startup probe saw Started in the status
	hurried   int  // executions before their tick without a request
	dead      bool
	input     []byte
}

func newModel(t *testing.T, input []byte) *model {
	e := &model{t: t, now: epoch, input: input, pod: &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}}
	typ := allTypes[e.choose(3)]
	r := rules{typ: typ, successes: 1, failures: int32(1 + e.choose(3)), delay: time.Duration(e.choose(3)*7) * time.Second}
	if typ == Readiness {
		r.successes = int32(1 + e.choose(3))
	}
	e.pod.Spec.RestartPolicy = []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyAlways, v1.RestartPolicyNever, v1.RestartPolicyOnFailure}[e.choose(4)]
	e.w = &worker{pod: &pod{uid: "u"}, spec: e.pod, container: &e.pod.Spec.Containers[0], rules: r, timing: Timing{Period: 10 * time.Second, Timeout: time.Second}}
	e.w.tick = e.now.Add(time.Duration(e.choose(10)) * time.Second)
	e.w.spread = true
	if e.choose(3) == 0 {
		e.restored = []Verdict{Success, Failure}[e.choose(2)]
		e.about = "fake://1"
		e.w.pod.restored = []Stored{{Container: "c", ContainerID: e.about, Type: typ, Result: e.restored}}
		e.w.restore()
	}
	e.c = v1.ContainerStatus{Name: "c"}
	return e
}

// choose returns a number below n from the input, or 0 after its end.
func (e *model) choose(n int) int {
	if len(e.input) == 0 {
		return 0
	}
	v := int(e.input[0]) % n
	e.input = e.input[1:]
	return v
}

func (e *model) step() {
	switch e.choose(20) {
	case 0:
		e.instance++
		e.c.ContainerID = "fake://" + strconv.Itoa(e.instance)
		e.c.Started = new(e.w.rules.typ != Startup && e.choose(2) == 0)
		at := e.now
		if e.instance == 1 {
			at = epoch.Add(-time.Duration(e.choose(30)) * time.Second)
		}
		e.began = metav1.NewTime(at)
		e.c.State = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: e.began}}
	case 1:
		e.c.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: int32(e.choose(2))}}
	case 2:
		e.c.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}
	case 3:
		e.c.Started = new(true)
		if e.instance > 0 && e.choose(2) == 0 { // the runtime failed to list it once
			e.c.State = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: e.began}}
		}
	case 4:
		if e.choose(8) == 0 {
			e.w.pod.leaving = true
		}
	case 5:
		e.have = nil
		if e.choose(4) > 0 {
			e.publish()
		}
	case 6:
		e.publish()
		if e.have != nil && e.choose(20) == 0 {
			e.have.Phase = v1.PodFailed
		}
	case 7:
		e.now = e.now.Add(time.Duration(e.choose(100)) * 100 * time.Millisecond)
	case 8: // AddPod
		if !e.executing {
			e.runRound(false)
		}
	case 9: // Trigger
		if !e.executing {
			e.w.triggered = true
			e.runRound(true)
		}
	default: // Run
		if e.executing {
			e.finish()
			return
		}
		e.now = later(e.now, e.w.at) // Run sleeps until then
		e.runRound(false)
	}
}

func (e *model) publish() {
	e.have = &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{*e.c.DeepCopy()}}
}

// runRound runs one round of the worker and compares it with the model.
func (e *model) runRound(triggered bool) {
	tick, before := e.w.tick, e.w.progress
	s := e.w.decide(roundInput{
		pod: e.pod, container: e.w.container, status: e.have, leaving: e.w.pod.leaving, now: e.now, agentStart: epoch,
	})
	e.updateModel()
	e.dead = s.verb == exit
	if !e.dead {
		first := e.w.id != before.id && e.w.stored != Unknown
		require.Equal(e.t, first || e.w.id == before.id && e.w.stored != before.stored, s.changed)
	}
	switch s.verb {
	case execute:
		require.True(e.t, e.mayExecute(), "executed without permission: %+v", e.have)
		if e.now.Before(tick) && !triggered {
			e.hurried++
			require.Equal(e.t, 1, e.hurried, "one execution of an instance may be before its tick")
		}
		e.executing = true
	case wait:
		require.True(e.t, e.w.at.After(e.now), "a worker that waits sleeps")
		require.False(e.t, e.w.at.After(e.now.Add(e.w.timing.Period)), "for a period at most")
		require.False(e.t, triggered && !e.w.spread && e.mayExecute() && e.w.at.Before(e.now), "a trigger has an effect")
	case exit:
		require.Equal(e.t, Unknown, e.w.stored)
	}
	e.compare()
}

func (e *model) updateModel() {
	if e.have == nil || e.have.Phase == v1.PodFailed || e.w.pod.leaving && e.w.rules.typ != Readiness {
		return
	}
	c := &e.have.ContainerStatuses[0]
	if c.ContainerID == "" {
		return
	}
	if c.ContainerID != e.about {
		e.about, e.seen, e.restored, e.passed, e.hurried = c.ContainerID, nil, Unknown, false, 0
		e.inherited = c.State.Running != nil && c.State.Running.StartedAt.Time.Before(epoch.Add(-10*time.Second))
	}
	switch {
	case c.State.Running == nil && e.w.rules.typ == Readiness:
		e.seen = append(e.seen, Unknown)
	case c.State.Running != nil && e.w.rules.typ == Startup && *c.Started && e.result() == Unknown:
		e.passed = true
	}
}

func (e *model) mayExecute() bool {
	if e.have == nil || e.have.Phase == v1.PodFailed || e.have.ContainerStatuses[0].State.Running == nil {
		return false
	}
	c := e.have.ContainerStatuses[0]
	typ := e.w.rules.typ
	held := typ == Startup && e.result() != Unknown || typ == Liveness && e.result() == Failure
	return !held && !(e.w.pod.leaving && typ != Readiness) && c.ContainerID == e.about &&
		e.now.Sub(c.State.Running.StartedAt.Time) >= e.w.rules.delay && *c.Started == (typ != Startup)
}

func (e *model) result() Verdict {
	typ := e.w.rules.typ
	if e.about == "" {
		return Unknown
	}
	result := map[Type]Verdict{Liveness: Success, Readiness: Failure, Startup: Unknown}[typ]
	if e.inherited {
		result = Unknown
	}
	if e.restored != Unknown {
		result = e.restored
	}
	if e.passed {
		result = Success
	}
	for i, v := range e.seen {
		need := int(e.w.rules.failures)
		switch v {
		case Unknown:
			result = Failure
			continue
		case Success:
			need = int(e.w.rules.successes)
		case Failure, Warning:
		}
		streak := 0
		for j := i; j >= 0 && e.seen[j] == v; j-- {
			streak++
		}
		if streak >= need {
			result = v
		}
	}
	return result
}

func (e *model) finish() {
	e.now = e.now.Add(time.Duration(e.choose(30)) * time.Second)
	e.executing = false
	before := e.w.stored
	switch verdict := e.choose(4); verdict {
	case 0: // it could not be carried out
	default:
		v := []Verdict{Failure, Success, Warning}[verdict-1]
		changed := e.w.outcome(e.w.rules, v)
		e.seen = append(e.seen, v.counted())
		require.Equal(e.t, before != e.w.stored, changed)
	}
	tick := e.w.tick
	e.w.advance(e.now)
	e.w.at = e.w.tick
	require.True(e.t, e.w.tick.After(e.now) && !e.w.tick.After(e.now.Add(e.w.timing.Period)))
	require.Zero(e.t, e.w.tick.Sub(tick)%e.w.timing.Period, "ticks keep their rhythm")
	e.compare()
}

func (e *model) compare() {
	if e.dead || e.w.id != e.about {
		return
	}
	require.Equal(e.t, e.result(), e.w.stored, "seen: %v", e.seen)
}

func (e *model) run() {
	for len(e.input) > 0 && !e.dead {
		e.step()
	}
}

// FuzzWorker compares the worker with the model: it never executes a probe that must wait (before
// the delay, on hold, after the startup succeeded, while terminating), applies thresholds
// exactly, and never sleeps for more than a period.
func FuzzWorker(f *testing.F) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 1000 {
		input := make([]byte, 300)
		for i := range input {
			input[i] = byte(rnd.Uint32())
		}
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) { newModel(t, input).run() })
}
