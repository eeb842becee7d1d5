package actions

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

const (
	always    = v1.RestartPolicyAlways
	onFailure = v1.RestartPolicyOnFailure
	never     = v1.RestartPolicyNever
)

// decisionCase is a pod in a usable sandbox.
type decisionCase struct {
	name              string
	pod               *v1.Pod
	containers        []observed.Container
	startup, liveness map[string]probe.Verdict
	want              summary
}

func (tc decisionCase) run(t *testing.T) {
	t.Run(tc.name, func(t *testing.T) {
		a := decide(t, Input{Pod: tc.pod, Status: observedPod(ready(), tc.containers...), Probes: results(tc.startup, tc.liveness)})
		require.Equal(t, tc.want, summarise(t, a), a)
	})
}

func list(c ...observed.Container) []observed.Container { return c }

// TestPlainInit covers each cell of the column "plain init" of the table in section 4.3.
func TestPlainInit(t *testing.T) {
	three := func(p v1.RestartPolicy) *v1.Pod { return testPod(p, "i0", "i1", "i2", "a") }
	restart42 := onExit(v1.ContainerRestartRuleActionRestart, 42)
	for _, tc := range []decisionCase{
		{name: "none has a status: the first", pod: three(never), want: summary{init: []int{0}}},
		{name: "created (#126543, #127162), C10", pod: three(never), containers: list(created("i1")), want: summary{init: []int{1}, remove: []string{"i1-created"}}},
		{name: "running: wait", pod: three(never), containers: list(running("i0"))},
		{name: "running with another image: wait", pod: three(always), containers: list(running("i0", otherHash))},
		{name: "succeeded: the next", pod: three(never), containers: list(exited("i0", 0)), want: summary{init: []int{1}}},
		{name: "the next although this one is lost", pod: three(never), containers: list(exited("i1", 0)), want: summary{init: []int{2}}},
		{name: "last succeeded: initialised", pod: three(never), containers: list(exited("i2", 0), exited("i1", 0), exited("i0", 0)), want: summary{regular: []int{0}}},
		{name: "last succeeded, others lost: initialised (#90271)", pod: three(never), containers: list(exited("i2", 0)), want: summary{regular: []int{0}}},
		{name: "earlier ones are not looked at", pod: three(always), containers: list(running("i1"), exited("i0", 3))},
		{name: "failed, always", pod: three(always), containers: list(exited("i0", 1)), want: summary{init: []int{0}}},
		{name: "failed, on failure", pod: three(onFailure), containers: list(exited("i1", 1), exited("i0", 0)), want: summary{init: []int{1}}},
		{name: "failed, never", pod: three(never), containers: list(exited("i0", 1)), want: summary{end: true}},
		{name: "C11 out of memory with exit code 0 (#116676), always", pod: three(always), containers: list(exited("i0", 0, reason("OOMKilled"))), want: summary{init: []int{0}}},
		{name: "C11 out of memory with exit code 0, on failure", pod: three(onFailure), containers: list(exited("i0", 0, reason("OOMKilled"))), want: summary{init: []int{0}}},
		{name: "C11 out of memory with exit code 0, never", pod: three(never), containers: list(exited("i0", 0, reason("OOMKilled"))), want: summary{end: true}},
		{name: "failed, own policy never", pod: with(three(always), own("i0", v1.ContainerRestartPolicyNever)), containers: list(exited("i0", 1)), want: summary{end: true}},
		{name: "failed, own policy on failure", pod: with(three(never), own("i0", v1.ContainerRestartPolicyOnFailure)), containers: list(exited("i0", 1)), want: summary{init: []int{0}}},
		{name: "failed, rule matches", pod: with(three(never), own("i0", v1.ContainerRestartPolicyNever, restart42)), containers: list(exited("i0", 42)), want: summary{init: []int{0}}},
		{name: "failed, rule misses", pod: with(three(never), own("i0", v1.ContainerRestartPolicyNever, restart42)), containers: list(exited("i0", 1)), want: summary{end: true}},
		{name: "unknown, always", pod: three(always), containers: list(unknown("i1")), want: summary{kill: []string{"i1-unknown "}, init: []int{1}}},
		{name: "unknown, never", pod: three(never), containers: list(unknown("i1")), want: summary{end: true}},
		{name: "unknown, own policy never", pod: with(three(always), own("i1", v1.ContainerRestartPolicyNever)), containers: list(unknown("i1")), want: summary{end: true}},
		{name: "unknown, own policy never, a rule will see its exit code", pod: with(three(always), own("i1", v1.ContainerRestartPolicyNever, restart42)), containers: list(unknown("i1")), want: summary{kill: []string{"i1-unknown "}}},
		{name: "the end clears what would start", pod: testPod(never, "i0", "i1", "a", "e"), containers: list(exited("i1", 1)), want: summary{end: true}},
		{name: "deleted: nothing", pod: with(three(always), deleted)},
		{name: "deleted: not the next", pod: with(three(always), deleted), containers: list(exited("i0", 0))},
		{name: "deleted: no retry", pod: with(three(always), deleted), containers: list(exited("i0", 1)), want: summary{end: true}},
	} {
		tc.run(t)
	}
}

// A pod stays initialised for the life of its sandbox.
func TestInitialisedBefore(t *testing.T) {
	pod := func(p v1.RestartPolicy) *v1.Pod { return testPod(p, "i0", "s1", "i2", "a", "b") }
	s1 := running("s1")
	for _, tc := range []decisionCase{
		{name: "C9 running, init lost (#86531, #62362)", pod: testPod(always, "i0", "i1", "a"), containers: list(running("a"))},
		{name: "C9 running and one crashed, init lost", pod: pod(always), containers: list(s1, running("a"), exited("b", 1)), want: summary{regular: []int{1}}},
		{name: "created, init lost", pod: testPod(always, "i0", "a"), containers: list(created("a")), want: summary{remove: []string{"a-created"}, regular: []int{0}}},
		{name: "all crashed, init lost", pod: testPod(always, "i0", "i1", "a"), containers: list(exited("a", 1)), want: summary{regular: []int{0}}},
		{name: "all crashed, an early init failed long ago and the last is lost", pod: testPod(never, "i0", "i1", "a", "b"), containers: list(running("a"), exited("i0", 1)), want: summary{regular: []int{1}}},
		{name: "a lost sidecar comes back", pod: pod(always), containers: list(running("a"), running("b")), want: summary{init: []int{1}}},
		{name: "C8 after a reboot init runs again (#120247)", pod: testPod(always, "i0", "i1", "a"), containers: list(exited("a", 255, in("r")), exited("i1", 0, in("r")), exited("i0", 0, in("r"))), want: summary{init: []int{0}}},
		{name: "C8 and goes on from there", pod: testPod(always, "i0", "i1", "a"), containers: list(exited("i0", 0), exited("a", 255, in("r")), exited("i1", 0, in("r")), exited("i0", 0, in("r"), id("i0-old"))), want: summary{init: []int{1}, prune: []string{"i0-old"}}},
		{name: "C8 an unknown sandbox proves nothing", pod: testPod(always, "i0", "a"), containers: list(exited("a", 255, in(""))), want: summary{init: []int{0}}},
		{name: "an unknown sandbox, but it runs", pod: testPod(always, "i0", "a"), containers: list(running("a", in("")))},
		{name: "a failure in an earlier sandbox is over", pod: testPod(never, "i0", "a"), containers: list(exited("i0", 1, in("r"))), want: summary{init: []int{0}}},
		{name: "a left over one in an earlier sandbox is stopped", pod: testPod(always, "i0", "a"), containers: list(running("i0", in("r")), created("i0", in("r"))), want: summary{kill: []string{"i0-running "}, remove: []string{"i0-created"}, init: []int{0}}},
		{name: "regular ones wait for init in the new sandbox", pod: testPod(always, "i0", "a"), containers: list(running("i0"), running("a", in("r")))},
	} {
		tc.run(t)
	}
}

// TestSidecar covers each cell of the column "sidecar" of the table in section 4.3.
func TestSidecar(t *testing.T) {
	middle := func(changes ...func(*v1.Pod)) *v1.Pod { return with(testPod(never, "i0", "s1", "i2", "a"), changes...) }
	last := func(changes ...func(*v1.Pod)) *v1.Pod { return with(testPod(never, "i0", "s1", "a"), changes...) }
	probed := startupProbe("s1")
	up, down := map[string]probe.Verdict{"s1-running": probe.Success}, map[string]probe.Verdict{"s1-running": probe.Failure}
	of := func(name string) map[string]probe.Verdict { return map[string]probe.Verdict{name: probe.Success} }
	for _, tc := range []decisionCase{
		{name: "none, not its turn", pod: middle(), containers: list(running("i0"))},
		{name: "none, its turn", pod: middle(), containers: list(exited("i0", 0)), want: summary{init: []int{1}}},
		{name: "none, a later one has run", pod: middle(), containers: list(running("i2")), want: summary{init: []int{1}}},
		{name: "created", pod: middle(), containers: list(created("s1")), want: summary{remove: []string{"s1-created"}, init: []int{1}}},
		{name: "C12 running: the next", pod: middle(), containers: list(running("s1"), exited("i0", 0)), want: summary{init: []int{2}}},
		{name: "C12 two sidecars: the next after the last", pod: testPod(always, "s0", "s1", "s2", "a"), containers: list(running("s1"), running("s0")), want: summary{init: []int{2}}},
		{name: "C12 running, last: initialised", pod: last(), containers: list(running("s1"), exited("i0", 0)), want: summary{regular: []int{0}}},
		{name: "C13 startup without result: wait", pod: middle(probed), containers: list(running("s1"))},
		{name: "C13 startup of another instance: wait", pod: middle(probed), containers: list(running("s1")), startup: of("s1-old")},
		{name: "C13 startup unknown, last: wait", pod: last(probed), containers: list(running("s1")), startup: map[string]probe.Verdict{"s1-running": probe.Unknown}},
		{name: "C13 startup failed", pod: middle(probed), containers: list(running("s1")), startup: down, want: summary{kill: []string{"s1-running StartupProbe"}, init: []int{1}}},
		{name: "C13 startup failed, last", pod: last(probed), containers: list(running("s1")), startup: down, want: summary{kill: []string{"s1-running StartupProbe"}, init: []int{1}}},
		{name: "started: the next", pod: middle(probed), containers: list(running("s1")), startup: up, want: summary{init: []int{2}}},
		{name: "started, last: initialised", pod: last(probed), containers: list(running("s1")), startup: up, want: summary{regular: []int{0}}},
		{name: "a result without a probe does not count", pod: last(), containers: list(running("s1")), startup: down, want: summary{regular: []int{0}}},
		{name: "image changed", pod: last(), containers: list(running("s1", otherHash), running("a")), want: summary{kill: []string{"s1-running "}, init: []int{1}}},
		{name: "image changed before the next started: both", pod: middle(), containers: list(running("s1", otherHash)), want: summary{kill: []string{"s1-running "}, init: []int{1, 2}}},
		{name: "image changed before it has started: wait", pod: middle(probed), containers: list(running("s1", otherHash))},
		{name: "liveness failed before it has started: wait", pod: last(probed), containers: list(running("s1")), liveness: down},
		{name: "unknown hash is not another hash", pod: last(), containers: list(running("s1", noHash), running("a"))},
		{name: "liveness failed", pod: last(), containers: list(running("s1"), running("a")), liveness: down, want: summary{kill: []string{"s1-running LivenessProbe"}, init: []int{1}}},
		{name: "liveness does not delay the next", pod: middle(), containers: list(running("s1")), liveness: down, want: summary{kill: []string{"s1-running LivenessProbe"}, init: []int{1, 2}}},
		{name: "liveness unknown", pod: last(), containers: list(running("s1"), running("a")), liveness: map[string]probe.Verdict{"s1-running": probe.Unknown}},
		{name: "exited 0", pod: middle(), containers: list(exited("s1", 0)), want: summary{init: []int{1}}},
		{name: "exited 1", pod: middle(), containers: list(exited("s1", 1)), want: summary{init: []int{1}}},
		{name: "exited while the pod runs", pod: last(), containers: list(running("a"), exited("s1", 1)), want: summary{init: []int{1}}},
		{name: "exited while a later init container runs", pod: middle(), containers: list(running("i2"), exited("s1", 0)), want: summary{init: []int{1}}},
		{name: "unknown", pod: middle(), containers: list(unknown("s1")), want: summary{kill: []string{"s1-unknown "}, init: []int{1}}},
		{name: "its end in an earlier sandbox is over", pod: testPod(always, "s0", "i1", "a"), containers: list(exited("s0", 0, in("r"))), want: summary{init: []int{0}}},
		{name: "all restart in order", pod: testPod(always, "s0", "s1", "s2", "a"), containers: list(running("a"), exited("s2", 1), exited("s1", 1), exited("s0", 1)), want: summary{init: []int{0, 1, 2}}},
		{name: "crashed with all others: regular ones wait for the last", pod: last(own("a", v1.ContainerRestartPolicyAlways)), containers: list(exited("a", 1), exited("s1", 1)), want: summary{init: []int{1}}},
		{name: "lost with all others: regular ones wait for the last", pod: last(own("a", v1.ContainerRestartPolicyAlways)), containers: list(exited("a", 1)), want: summary{init: []int{1}}},
		{name: "lost while regular ones run: those that have ended start beside it", pod: testPod(always, "i0", "s1", "a", "b"), containers: list(running("b"), exited("a", 1)), want: summary{init: []int{1}, regular: []int{0}}},
		{name: "lost while a regular one is created", pod: testPod(always, "i0", "s1", "a"), containers: list(created("a")), want: summary{remove: []string{"a-created"}, init: []int{1}, regular: []int{0}}},
		{name: "lost, and one of unknown state waits for it", pod: last(own("a", v1.ContainerRestartPolicyAlways)), containers: list(unknown("a")), want: summary{init: []int{1}}},
		{name: "C15 all have ended: no sidecar comes back", pod: last(), containers: list(exited("a", 1), exited("s1", 1)), want: summary{end: true}},
		{name: "C15 all have ended: the sidecar is stopped", pod: last(), containers: list(exited("a", 0), running("s1")), want: summary{end: true}},
		{name: "C15 all have ended: an earlier sidecar does not start", pod: middle(), containers: list(exited("a", 0), exited("i2", 0), exited("s1", 1)), want: summary{end: true}},
		{name: "deleted: it does not come back", pod: with(last(), deleted), containers: list(running("a"), exited("s1", 1))},
		{name: "deleted: what fails is stopped", pod: with(last(), deleted), containers: list(running("a"), running("s1")), liveness: down, want: summary{kill: []string{"s1-running LivenessProbe"}}},
	} {
		tc.run(t)
	}
}

// C14: after a restart of the agent, before the sidecar's first probe, a newer regular container
// proves that the sidecar has started.
func TestSidecarStartedBefore(t *testing.T) {
	at := func(minute int) change {
		return func(c *observed.Container) { c.CreatedAt = time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	}
	pod := with(testPod(always, "s", "a"), startupProbe("s"))
	for _, tc := range []decisionCase{
		{name: "C14 the container crashed (#136910, #137146)", pod: pod, containers: list(exited("a", 1, at(2)), running("s", at(1))), want: summary{regular: []int{0}}},
		{name: "C14 and the sidecar is a new one", pod: pod, containers: list(running("s", at(3)), exited("a", 1, at(2)))},
		{name: "C14 the sidecar's creation time is unknown", pod: pod, containers: list(exited("a", 1, at(2)), running("s"))},
		{name: "C14 in another sandbox", pod: pod, containers: list(exited("a", 1, at(2), in("r")), running("s", at(1)))},
		{name: "a failure counts", pod: pod, containers: list(exited("a", 1, at(2)), running("s", at(1))), startup: map[string]probe.Verdict{"s-running": probe.Failure}, want: summary{kill: []string{"s-running StartupProbe"}, init: []int{0}}},
	} {
		tc.run(t)
	}
}

// Section 5: only the newest exited instance of an init container is kept.
func TestPruneInit(t *testing.T) {
	pod := testPod(always, "i0", "s1", "a")
	for _, tc := range []decisionCase{
		{name: "one", pod: pod, containers: list(running("a"), running("s1"), exited("i0", 0))},
		{name: "crashes", pod: testPod(always, "i0", "a"), containers: list(exited("i0", 1, id("3")), exited("i0", 1, id("2")), exited("i0", 1, id("1"))), want: summary{init: []int{0}, prune: []string{"2", "1"}}},
		{name: "the newest is unknown", pod: testPod(always, "i0", "a"), containers: list(unknown("i0"), exited("i0", 1, id("1"))), want: summary{init: []int{0}, kill: []string{"i0-unknown "}, prune: []string{"1"}}},
		{name: "what runs does not count", pod: pod, containers: list(running("a"), running("s1"), exited("s1", 1, id("2")), exited("s1", 1, id("1"))), want: summary{prune: []string{"1"}}},
		{name: "an unknown one is stopped first", pod: pod, containers: list(running("a"), running("s1"), exited("s1", 1), unknown("s1")), want: summary{kill: []string{"s1-unknown "}}},
		{name: "regular ones are no matter", pod: pod, containers: list(running("a"), running("s1"), exited("a", 1, id("2")), exited("a", 1, id("1")))},
	} {
		tc.run(t)
	}
}
