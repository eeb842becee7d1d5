package probe

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	epoch      = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	allTypes   = []Type{Liveness, Readiness, Startup}
	plainRules = rules{successes: 1, failures: 3}
)

func withType(r rules, t Type) rules {
	r.typ = t
	return r
}

// scene returns the input for a container that has run for a minute. The agent has run for an hour.
func scene(change func(*v1.ContainerStatus)) roundInput {
	c := v1.ContainerStatus{
		Name: "c", ContainerID: "fake://1", Started: new(true),
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(epoch.Add(59 * time.Minute))}},
	}
	if change != nil {
		change(&c)
	}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	return roundInput{
		pod: pod, container: &pod.Spec.Containers[0],
		status: &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{c}},
		now:    epoch.Add(time.Hour), agentStart: epoch,
	}
}

func (in roundInput) and(change func(*roundInput)) roundInput {
	change(&in)
	return in
}

func (in roundInput) withCondition(t v1.PodConditionType, status v1.ConditionStatus) roundInput {
	in.status.Conditions = []v1.PodCondition{{Type: t, Status: status}}
	return in
}

func exited(code int32, reason string) func(*v1.ContainerStatus) {
	return func(c *v1.ContainerStatus) {
		c.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
	}
}

// Section 7.3, row by row. known is a worker with a Success of the instance.
func TestRound(t *testing.T) {
	known := progress{id: "fake://1", stored: Success, last: Success, run: 4, tried: true}
	never := func(in roundInput) roundInput { in.pod.Spec.RestartPolicy = v1.RestartPolicyNever; return in }
	leaves := func(in *roundInput) { in.leaving = true }
	notStarted := func(c *v1.ContainerStatus) { c.Started = new(false) }
	type want struct {
		verb   verb
		why    string
		stored Verdict
	}
	for _, tc := range []struct {
		name  string
		types []Type
		from  progress
		in    roundInput
		want  want
	}{
		{"no status", allTypes, known, scene(nil).and(func(in *roundInput) { in.status = nil }), want{wait, whyNoStatus, Success}},
		{"pod failed", allTypes, known, scene(nil).and(func(in *roundInput) { in.status.Phase = v1.PodFailed }), want{exit, whyFinal, Unknown}},
		{"pod succeeded", allTypes, known, scene(nil).and(func(in *roundInput) { in.status.Phase = v1.PodSucceeded }), want{exit, whyFinal, Unknown}},
		{"no container status", allTypes, known, scene(func(c *v1.ContainerStatus) { c.Name = "other" }), want{wait, whyNoContainer, Success}},
		{"no ID", allTypes, known, scene(func(c *v1.ContainerStatus) { c.ContainerID = "" }), want{wait, whyNoContainer, Success}},
		{"executes", []Type{Liveness, Readiness}, known, scene(nil), want{execute, "", Success}},
		{"startup executes", []Type{Startup}, progress{id: "fake://1"}, scene(notStarted), want{execute, "", Unknown}},

		// T38: on hold until there is a new instance.
		{"liveness on hold", []Type{Liveness}, progress{id: "fake://1", stored: Failure, onHold: true}, scene(nil), want{wait, whyGaveUp, Failure}},
		{"startup on hold", []Type{Startup}, progress{id: "fake://1", stored: Success, onHold: true}, scene(notStarted), want{wait, whyPassed, Success}},
		{"hold ends", []Type{Liveness}, progress{id: "fake://0", stored: Failure, onHold: true, run: 2}, scene(nil), want{execute, "", Success}},

		// A container that does not run is not ready, and its liveness result stays.
		{"waiting, readiness", []Type{Readiness}, known, scene(func(c *v1.ContainerStatus) { c.State = v1.ContainerState{} }), want{wait, whyNotRunning, Failure}},
		{"waiting, others", []Type{Liveness, Startup}, known, scene(func(c *v1.ContainerStatus) { c.State = v1.ContainerState{} }), want{wait, whyNotRunning, Success}},
		// T44
		{"ended for good", allTypes, known, never(scene(exited(0, ""))), want{exit, whyEnded, Unknown}},
		{"ended, runs again", []Type{Readiness}, known, scene(exited(0, "")), want{wait, whyNotRunning, Failure}},
		{"rule matches", []Type{Readiness}, known, func() roundInput {
			in := never(scene(exited(42, "")))
			in.container.RestartPolicy = new(v1.ContainerRestartPolicyNever)
			in.container.RestartPolicyRules = []v1.ContainerRestartRule{{
				Action:    v1.ContainerRestartRuleActionRestart,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
			}}
			return in
		}(), want{wait, whyNotRunning, Failure}},
		{"all restart", []Type{Readiness}, known, never(scene(exited(0, ""))).withCondition(v1.AllContainersRestarting, v1.ConditionTrue), want{wait, whyNotRunning, Failure}},
		{"all restarted long ago", []Type{Readiness}, known, never(scene(exited(0, ""))).withCondition(v1.AllContainersRestarting, v1.ConditionFalse), want{exit, whyEnded, Unknown}},
		{"another condition holds", []Type{Readiness}, known, never(scene(exited(0, ""))).withCondition(v1.PodReady, v1.ConditionTrue), want{exit, whyEnded, Unknown}},
		{"removed since all restart", []Type{Readiness}, known, never(scene(exited(137, "RestartingAllContainers"))), want{wait, whyNotRunning, Failure}},
		{"on hold, ended for good", []Type{Liveness}, progress{id: "fake://1", stored: Failure, onHold: true}, never(scene(exited(137, ""))), want{exit, whyEnded, Unknown}},

		// T43
		{"terminating", []Type{Liveness, Startup}, known, scene(nil).and(leaves), want{exit, whyLeaving, Unknown}},
		{"terminating, readiness", []Type{Readiness}, known, scene(nil).and(leaves), want{execute, "", Success}},
		{"terminating and stopped", []Type{Readiness}, known, scene(exited(0, "")).and(leaves), want{exit, whyEnded, Unknown}},
		{"terminating while all restart", []Type{Readiness}, known, scene(exited(0, "")).and(leaves).withCondition(v1.AllContainersRestarting, v1.ConditionTrue), want{exit, whyEnded, Unknown}},

		// T37
		{"not started", []Type{Liveness, Readiness}, known, scene(notStarted), want{wait, whyNotStarted, Success}},
		{"started is unset", []Type{Liveness, Readiness}, known, scene(func(c *v1.ContainerStatus) { c.Started = nil }), want{wait, whyNotStarted, Success}},
		// T41
		{"started under another agent", []Type{Startup}, progress{id: "fake://1"}, scene(nil), want{wait, whyPassed, Success}},
	} {
		for _, typ := range tc.types {
			t.Run(tc.name+" "+typ.String(), func(t *testing.T) {
				p := tc.from
				s := p.round(withType(plainRules, typ), tc.in)
				require.Equal(t, tc.want, want{s.verb, s.why, p.stored})
				if s.verb == exit {
					require.Zero(t, p.run, "a new instance starts without counted outcomes")
				}
				before := tc.from.stored
				require.Equal(t, s.verb != exit && p.stored != before || p.id != tc.from.id, s.changed, "an exit reports no change")
			})
		}
	}
}

// T39: the initial delay counts per instance, with second precision.
func TestRoundInitialDelay(t *testing.T) {
	r := withType(plainRules, Readiness)
	r.delay = 5 * time.Second
	begun := epoch.Add(time.Hour)
	for _, tc := range []struct {
		after time.Duration
		want  verb
	}{{0, wait}, {4999 * time.Millisecond, wait}, {5 * time.Second, execute}} {
		in := scene(func(c *v1.ContainerStatus) { c.State.Running.StartedAt = metav1.NewTime(begun) })
		in.now = begun.Add(tc.after)
		p := progress{}
		s := p.round(r, in)
		require.Equal(t, tc.want, s.verb, tc.after)
		if tc.want == wait {
			require.Equal(t, step{why: whyDelay, until: begun.Add(5 * time.Second), changed: true}, s)
		}
	}
}

// If the start time of a container is in the future, because clocks differ or were set, the delay
// counts from the first round that saw it running.
func TestRoundInitialDelayByAnotherClock(t *testing.T) {
	r := withType(plainRules, Readiness)
	in := scene(func(c *v1.ContainerStatus) { c.State.Running.StartedAt = metav1.NewTime(epoch.Add(25 * time.Hour)) })
	in.now = epoch.Add(24 * time.Hour)
	require.Equal(t, execute, (&progress{}).round(r, in).verb, "without a delay")
	r.delay = 5 * time.Second
	p, seen := progress{}, in.now
	require.Equal(t, step{why: whyDelay, until: seen.Add(r.delay), changed: true}, p.round(r, in))
	in.now = seen.Add(4 * time.Second)
	require.Equal(t, step{why: whyDelay, until: seen.Add(r.delay)}, p.round(r, in))
	in.now = seen.Add(r.delay)
	require.Equal(t, execute, p.round(r, in).verb)
}

// Sections 7.1 and 7.5: an instance has a first result unless it ran before the agent.
func TestAdopt(t *testing.T) {
	first := map[Type]Verdict{Liveness: Success, Readiness: Failure, Startup: Unknown}
	for _, tc := range []struct {
		name    string
		started time.Duration // relative to the agent's start
		inherit bool
	}{
		{"new", time.Minute, false},
		{"just before the agent", -10 * time.Second, false},
		{"long before the agent", -10*time.Second - time.Nanosecond, true},
	} {
		for _, typ := range allTypes {
			t.Run(tc.name+" "+typ.String(), func(t *testing.T) {
				in := scene(func(c *v1.ContainerStatus) {
					c.State.Running.StartedAt = metav1.NewTime(epoch.Add(tc.started))
					c.Started = new(typ != Startup)
				})
				p := progress{id: "fake://0", stored: Success, run: 7, last: Success, onHold: true, tried: true}
				s := p.round(withType(plainRules, typ), in)
				want := first[typ]
				if tc.inherit {
					want = Unknown
				}
				require.Equal(t, progress{id: "fake://1", stored: want, seen: p.seen}, p)
				require.Equal(t, want != Unknown, s.changed)
				require.Equal(t, tc.started < 0, s.older)
			})
		}
	}
}

// The counter of equal outcomes stops at its maximum.
func TestOutcomeCounterIsBounded(t *testing.T) {
	for from, want := range map[int32]int32{0: 1, math.MaxInt32 - 1: math.MaxInt32, math.MaxInt32: math.MaxInt32} {
		p := progress{last: Success, run: from, stored: Failure}
		require.True(t, p.outcome(rules{typ: Readiness, successes: 1, failures: 3}, Success))
		require.Equal(t, want, p.run)
		require.Equal(t, Success, p.stored)
	}
}

// Thresholds: T36, T37, T38.
func TestOutcome(t *testing.T) {
	const (
		s = Success
		f = Failure
		w = Warning
		u = Unknown
	)
	for _, tc := range []struct {
		name     string
		rules    rules
		from     Verdict
		outcomes []Verdict
		stored   []Verdict
		hold     bool
	}{
		{"T36 alternating never becomes ready", rules{typ: Readiness, successes: 2, failures: 3}, f, []Verdict{f, s, f, s}, []Verdict{f, f, f, f}, false},
		{"T36 two in a row", rules{typ: Readiness, successes: 2, failures: 3}, f, []Verdict{f, s, s}, []Verdict{f, f, s}, false},
		{"T36 third failure", rules{typ: Readiness, successes: 2, failures: 3}, s, []Verdict{f, f, s, f, f, f}, []Verdict{s, s, s, s, s, f}, false},
		{"unknown stays below the threshold", rules{typ: Readiness, successes: 2, failures: 2}, u, []Verdict{f, s, f, f}, []Verdict{u, u, u, f}, false},
		{"a warning is a success", rules{typ: Readiness, successes: 2, failures: 3}, f, []Verdict{w, s}, []Verdict{f, s}, false},
		{"an unknown verdict is a failure", rules{typ: Readiness, successes: 1, failures: 2}, s, []Verdict{u, f}, []Verdict{s, f}, false},
		{"T38 liveness", rules{typ: Liveness, successes: 1, failures: 3}, s, []Verdict{f, f, f}, []Verdict{s, s, f}, true},
		{"liveness continues", rules{typ: Liveness, successes: 1, failures: 3}, s, []Verdict{f, f, s, f, f}, []Verdict{s, s, s, s, s}, false},
		{"T37 startup succeeds", rules{typ: Startup, successes: 1, failures: 30}, u, []Verdict{f, f, s}, []Verdict{u, u, s}, true},
		{"startup fails", rules{typ: Startup, successes: 1, failures: 2}, u, []Verdict{f, f}, []Verdict{u, f}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := progress{stored: tc.from}
			for i, v := range tc.outcomes {
				before := p.stored
				changed := p.outcome(tc.rules, v)
				require.Equal(t, tc.stored[i], p.stored, i)
				require.Equal(t, before != p.stored, changed, i)
			}
			require.Equal(t, tc.hold, p.onHold)
			if tc.hold {
				require.Zero(t, p.run)
			}
		})
	}
}
