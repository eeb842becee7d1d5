package actions

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg/observed"
)

// C1 to C7: when a sandbox is created, and which containers start in it.
func TestSandbox(t *testing.T) {
	twoReady := observedPod(ready())
	twoReady.Sandboxes = []observed.Sandbox{{ID: "t", State: observed.SandboxReady, Attempt: 4}, *ready()}
	readyAndDead := observedPod(ready())
	readyAndDead.Sandboxes = append(readyAndDead.Sandboxes, observed.Sandbox{ID: "r", State: observed.SandboxNotReady})
	noIP, noNetwork, hostNetwork := ready(), ready(), ready()
	noIP.IPs = nil
	noNetwork.IPs, noNetwork.HasNetworkStatus = nil, false
	hostNetwork.HostNetwork = true
	unknownState := dead()
	unknownState.State = observed.SandboxUnknown
	two := func(p v1.RestartPolicy, changes ...func(*v1.Pod)) *v1.Pod {
		return with(testPod(p, "a", "b"), changes...)
	}
	restart42 := onExit(v1.ContainerRestartRuleActionRestart, 42)
	both := []int{0, 1}
	next := Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1}
	end := Actions{KillPod: true, SandboxID: "s", Attempt: 1}
	starting := func(a Actions, regular ...int) Actions { a.StartRegular = regular; return a }
	for _, tc := range []struct {
		name   string
		pod    *v1.Pod
		status *observed.Pod
		want   Actions
	}{
		{"C1 nothing yet", two(always), observedPod(nil), Actions{KillPod: true, CreateSandbox: true, StartRegular: both}},
		{"C1 nothing yet, init", testPod(always, "i1", "i2", "a"), observedPod(nil), Actions{KillPod: true, CreateSandbox: true, StartInit: []int{0}}},
		{"C1 nothing yet, sidecar first", testPod(always, "s1", "i2", "a"), observedPod(nil), Actions{KillPod: true, CreateSandbox: true, StartInit: []int{0}}},
		{"C1 ephemeral containers wait for the sandbox", testPod(always, "a", "e"), observedPod(nil), Actions{KillPod: true, CreateSandbox: true, StartRegular: []int{0}}},
		{"C2 two ready", two(always), twoReady, Actions{KillPod: true, CreateSandbox: true, SandboxID: "t", Attempt: 5, StartRegular: both}},
		{"an older sandbox that is not ready does not count", two(always), readyAndDead, Actions{SandboxID: "s", StartRegular: both}},
		{"not ready", two(always), observedPod(dead()), starting(next, both...)},
		{"unknown state", two(always), observedPod(unknownState), starting(next, both...)},
		{"C3 lost address", two(always), observedPod(noIP), starting(next, both...)},
		{"C3 no network status", two(always), observedPod(noNetwork), Actions{SandboxID: "s", StartRegular: both}},
		{"C4 other network", two(always), observedPod(hostNetwork), Actions{KillPod: true, CreateSandbox: true, Attempt: 1, StartRegular: both}},
		{"C5 never, one has run (#35309, #75441)", two(never), observedPod(dead(), exited("a", 0)), end},
		{"C5 never, an init container has run", testPod(never, "i", "a"), observedPod(dead(), exited("i", 0)), end},
		{"C5 never, nothing has run", two(never), observedPod(dead()), starting(next, both...)},
		{"C5 never, running when the sandbox died", two(never), observedPod(dead(), running("a")), end},
		{
			"C6 never, created is not run (#118321)", two(never), observedPod(dead(), created("a")),
			Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, StartRegular: both, Remove: []observed.Container{created("a")}},
		},
		{
			"C6 never, an init container is created", testPod(never, "i", "a"), observedPod(dead(), created("i")),
			Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, StartInit: []int{0}, PruneInit: []observed.Container{created("i")}},
		},
		{"never, but one has a policy of its own (#118321)", two(never, own("b", v1.ContainerRestartPolicyAlways)), observedPod(dead(), exited("a", 0), exited("b", 0)), starting(next, 1)},
		{"never, its own policy is spent", two(never, own("b", v1.ContainerRestartPolicyOnFailure)), observedPod(dead(), exited("a", 0), exited("b", 0)), end},
		{"never, its own policy is not spent", two(never, own("b", v1.ContainerRestartPolicyOnFailure)), observedPod(dead(), exited("a", 0), exited("b", 1)), starting(next, 1)},
		{"never, its own policy brings the rest along", two(never, own("b", v1.ContainerRestartPolicyAlways)), observedPod(dead(), exited("b", 0)), starting(next, both...)},
		{"never, a rule brings one back", two(never, own("b", v1.ContainerRestartPolicyNever, restart42)), observedPod(dead(), exited("a", 0), exited("b", 42)), starting(next, 1)},
		{
			"never, a rule has no exit code of a container in unknown state", two(never, own("b", v1.ContainerRestartPolicyNever, onExit(v1.ContainerRestartRuleActionRestart, 0))), observedPod(dead(), exited("a", 0), unknown("b")),
			Actions{SandboxID: "s", Attempt: 1, Kill: []ContainerKill{{ID: unknown("b").ID, Name: "b", Message: "Container b has lost its sandbox"}}},
		},
		{"never, the rule does not match", two(never, own("b", v1.ContainerRestartPolicyNever, restart42)), observedPod(dead(), exited("a", 0), exited("b", 1)), end},
		{
			"never, a rule will see its exit code", two(never, own("b", v1.ContainerRestartPolicyNever, restart42)), observedPod(dead(), running("a"), running("b")),
			Actions{SandboxID: "s", Attempt: 1, Kill: []ContainerKill{{ID: running("b").ID, Name: "b", Message: "Container b has lost its sandbox"}}},
		},
		{"C7 on failure, all succeeded", two(onFailure), observedPod(dead(), exited("a", 0), exited("b", 0)), end},
		{"on failure, one failed", two(onFailure), observedPod(dead(), exited("a", 0), exited("b", 1)), starting(next, 1)},
		{"on failure, one never ran", two(onFailure), observedPod(dead(), exited("a", 0)), starting(next, 1)},
		{"on failure, one ran until now", two(onFailure), observedPod(dead(), exited("a", 0), running("b")), starting(next, 1)},
		{"rules do not count where an exit was clean", two(onFailure, own("a", v1.ContainerRestartPolicyOnFailure, onExit(v1.ContainerRestartRuleActionRestart, 0)), own("b", v1.ContainerRestartPolicyOnFailure)), observedPod(dead(), exited("a", 0), exited("b", 0)), end},
		{"never, the first one's own policy brings the rest along", two(never, own("a", v1.ContainerRestartPolicyAlways)), observedPod(dead(), exited("a", 0)), starting(next, both...)},
		{"never, its own policy restarts no other container", two(never, own("b", v1.ContainerRestartPolicyOnFailure)), observedPod(dead(), exited("b", 0)), end},
		{"never, as its own policy as well", two(never, own("b", v1.ContainerRestartPolicyNever)), observedPod(dead(), exited("a", 0)), end},
		{"always", two(always), observedPod(dead(), exited("a", 0), running("b")), starting(next, both...)},
		{"always, but one has run and never restarts", two(always, own("a", v1.ContainerRestartPolicyNever)), observedPod(dead(), exited("a", 0), running("b")), starting(next, 1)},
		{
			"a new sandbox begins with the first init container", testPod(always, "i1", "s2", "a"), observedPod(dead(), exited("a", 255), running("s2"), exited("i1", 0)),
			Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, StartInit: []int{0}, PruneInit: []observed.Container{running("s2"), exited("i1", 0)}},
		},
		{"only unstarted leftovers, and init must run", testPod(onFailure, "i1", "a"), observedPod(dead(), exited("i1", 0), exited("a", 0)), end},
		{"an init container has failed for good", with(testPod(always, "i", "a"), own("i", v1.ContainerRestartPolicyNever)), observedPod(dead(), exited("i", 1)), end},
		{"an init container in unknown state has not failed", with(testPod(always, "i", "a"), own("i", v1.ContainerRestartPolicyNever)), observedPod(dead(), unknown("i", func(c *observed.Container) { c.ExitCode = 255 })), Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, StartInit: []int{0}, PruneInit: list(unknown("i", func(c *observed.Container) { c.ExitCode = 255 }))}},
		{"an init container has failed, and may again", testPod(onFailure, "i", "a"), observedPod(dead(), exited("i", 1)), Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, StartInit: []int{0}, PruneInit: list(exited("i", 1))}},
		{"deleted", with(two(always), deleted), observedPod(nil), Actions{KillPod: true}},
		{"deleted, dead", with(two(always), deleted), observedPod(dead(), exited("a", 1)), end},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := decide(t, Input{Pod: tc.pod, Status: tc.status})
			require.Equal(t, len(got.StartRegular) == 0, got.Explanation != "", got.Explanation)
			for _, k := range tc.want.Kill {
				require.Equal(t, "the exit code of container "+k.Name+" decides whether it restarts", got.Explanation)
			}
			got.Explanation = ""
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.want.KillPod && !tc.want.CreateSandbox, got.Over())
		})
	}
}

// Containers in the pod's sandbox that are not in its spec are stopped if they run, and removed
// if they were only created. The pod's own containers do not wait for that.
func TestStrangers(t *testing.T) {
	for _, tc := range []decisionCase{
		{name: "renamed", pod: testPod(always, "b"), containers: list(running("a")), want: summary{kill: []string{"a-running "}, regular: []int{0}}},
		{name: "dropped", pod: testPod(always, "b"), containers: list(running("b"), running("a")), want: summary{kill: []string{"a-running "}}},
		{name: "unknown", pod: testPod(always, "b"), containers: list(running("b"), unknown("a")), want: summary{kill: []string{"a-unknown "}}},
		{name: "unknown, deleted", pod: with(testPod(always, "b"), deleted), containers: list(running("b"), unknown("a")), want: summary{kill: []string{"a-unknown "}}},
		{name: "created", pod: testPod(always, "b"), containers: list(running("b"), created("a")), want: summary{remove: []string{"a-created"}}},
		{name: "exited", pod: testPod(always, "b"), containers: list(running("b"), exited("a", 1))},
		{name: "in an earlier sandbox", pod: testPod(always, "b"), containers: list(running("b"), running("a", in("r"))), want: summary{kill: []string{"a-running "}}},
		{name: "while init runs", pod: testPod(always, "i", "b"), containers: list(running("i"), running("a")), want: summary{kill: []string{"a-running "}}},
		{name: "a dropped sidecar", pod: testPod(always, "b"), containers: list(running("b"), running("s")), want: summary{kill: []string{"s-running "}}},
		{name: "all others are in the spec", pod: testPod(always, "s", "a", "e"), containers: list(running("a"), running("s"), running("e"))},
	} {
		tc.run(t)
	}
}

// A sandbox with another name or namespace does not belong to the pod, and its containers do not
// count: the pod starts from the beginning.
func TestSandboxOfAnotherName(t *testing.T) {
	named := func(sb *observed.Sandbox, id, namespace, name string, attempt uint32) *observed.Sandbox {
		sb.ID, sb.Name, sb.Namespace, sb.Attempt = id, name, namespace, attempt
		return sb
	}
	pod := testPod(never, "i", "a")
	fresh := func(attempt uint32) Actions {
		return Actions{KillPod: true, CreateSandbox: true, Attempt: attempt, StartInit: []int{0}, Explanation: "init container i runs first"}
	}
	for name, tc := range map[string]struct {
		pod       *v1.Pod
		sandboxes []*observed.Sandbox
		in        string
		want      Actions
	}{
		"the pod's":             {pod, []*observed.Sandbox{named(ready(), "s", "shop", "web", 3)}, "s", Actions{SandboxID: "s", Attempt: 3}},
		"name":                  {pod, []*observed.Sandbox{named(ready(), "s", "shop", "old", 3)}, "s", fresh(4)},
		"namespace":             {pod, []*observed.Sandbox{named(ready(), "s", "other", "web", 3)}, "s", fresh(4)},
		"stopped":               {pod, []*observed.Sandbox{named(dead(), "s", "shop", "old", 3)}, "", fresh(4)},
		"behind the pod's":      {pod, []*observed.Sandbox{named(ready(), "s", "shop", "web", 3), named(dead(), "r", "shop", "old", 2)}, "s", Actions{SandboxID: "s", Attempt: 3}},
		"runs behind the pod's": {testPod(always, "i", "a"), []*observed.Sandbox{named(ready(), "s", "shop", "web", 3), named(ready(), "r", "shop", "old", 2)}, "r", fresh(4)},
		"alone in its sandbox":  {testPod(always, "a"), []*observed.Sandbox{named(ready(), "s", "shop", "web", 3), named(ready(), "r", "shop", "old", 2), named(dead(), "q", "shop", "old", 1)}, "s", Actions{KillPod: true, CreateSandbox: true, Attempt: 4, StartRegular: []int{0}}},
		"left in a dead one":    {testPod(always, "i", "a"), []*observed.Sandbox{named(ready(), "s", "shop", "web", 3), named(dead(), "r", "shop", "old", 2)}, "r", fresh(4)},
		"dead before the pod's": {testPod(always, "i", "a"), []*observed.Sandbox{named(dead(), "r", "shop", "old", 3), named(ready(), "s", "shop", "web", 2)}, "s", Actions{SandboxID: "s", Attempt: 2}},
		"before the pod's":      {testPod(always, "i", "a"), []*observed.Sandbox{named(ready(), "s", "shop", "old", 3), named(dead(), "r", "shop", "web", 2)}, "s", fresh(4)},
		"deleted":               {with(testPod(always, "a"), deleted), []*observed.Sandbox{named(ready(), "s", "shop", "old", 3)}, "s", Actions{KillPod: true, Attempt: 4, Explanation: "the pod is being deleted"}},
	} {
		status := &observed.Pod{UID: "0d1e"}
		for _, sb := range tc.sandboxes {
			status.Sandboxes = append(status.Sandboxes, *sb)
		}
		if tc.in != "" {
			status.Containers = list(running("a", in(tc.in)), exited("i", 0, in(tc.in)))
		} else {
			status.Containers = list(unknown("a", in("s")), exited("i", 0, in("s")))
		}
		require.Equal(t, tc.want, decide(t, Input{Pod: tc.pod, Status: status}), name)
	}
}

// Compute returns an error for an incomplete input, and for the status of another pod.
func TestComputeChecks(t *testing.T) {
	for _, in := range []Input{{}, {Pod: testPod(always, "a")}, {Status: observedPod(nil)}} {
		_, err := Compute(in)
		require.EqualError(t, err, "actions: Input.Pod and Input.Status are required")
	}
	other := observedPod(ready(), running("b"))
	other.UID = "0ther"
	_, err := Compute(Input{Pod: testPod(always, "a"), Status: other})
	require.EqualError(t, err, `actions: Input.Status has the UID "0ther", Input.Pod has "0d1e"`)
}

var all42 = onExit(v1.ContainerRestartRuleActionRestartAllContainers, 42)

func resetPod(triggers ...string) *v1.Pod {
	pod := testPod(always, "i0", "s1", "i2", "a", "b", "c", "e")
	for _, name := range triggers {
		own(name, v1.ContainerRestartPolicyNever, all42)(pod)
	}
	return pod
}

// C19: all instances are reset, the triggering one last.
func TestReset(t *testing.T) {
	full := list(running("e"), running("c"), created("b"), exited("b", 42, id("b1")), running("a"), exited("a", 1), exited("i2", 0), running("s1"), exited("i0", 42))
	for _, tc := range []struct {
		name   string
		pod    *v1.Pod
		status *observed.Pod
		want   []string
	}{
		{"regular trigger", resetPod("a"), observedPod(ready(), running("c"), running("b"), exited("a", 42), exited("a", 0, id("a-1")), exited("i2", 0), running("s1"), exited("i0", 0)), []string{"b-running", "c-running", "i0-exited", "s1-running", "i2-exited", "a-1", "a-exited"}},
		{"regular and init trigger", resetPod("a", "i2"), observedPod(ready(), running("b"), exited("a", 42), exited("i2", 42), exited("i2", 1, id("i2-1")), running("s1"), exited("i0", 0)), []string{"b-running", "i0-exited", "s1-running", "a-exited", "i2-1", "i2-exited"}},
		{"begun: condition only", resetPod("b"), observedPod(ready(), full...), []string{"a-exited", "a-running", "b1", "b-created", "c-running", "i0-exited", "s1-running", "i2-exited"}},
		{"the rest after a crash", resetPod("a"), observedPod(ready(), exited("a", 42)), []string{"a-exited"}},
		{"a dead sandbox can wait", resetPod("a"), observedPod(dead(), exited("a", 42), running("b")), []string{"b-running", "a-exited"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := decide(t, Input{Pod: tc.pod, Status: tc.status, RestartAll: true})
			require.Equal(t, tc.want, ids(a.Reset))
			change := tc.status.SandboxChanged(false)
			require.Equal(t, Actions{SandboxID: change.ID, Attempt: change.Attempt, Reset: a.Reset, Explanation: "all containers are restarted"}, a)
		})
	}
}

// C19: after the reset the pod starts from the beginning, even if RestartAll is still set.
func TestAfterReset(t *testing.T) {
	a := decide(t, Input{Pod: resetPod("a"), Status: observedPod(ready(), exited("e", 0)), RestartAll: true})
	require.Equal(t, summary{init: []int{0}}, summarise(t, a))
	a = decide(t, Input{Pod: with(resetPod("a"), deleted), Status: observedPod(ready(), exited("a", 42), running("b")), RestartAll: true})
	require.Empty(t, a.Reset, "a deleted pod restarts nothing")
}

func TestRestartAllTriggered(t *testing.T) {
	published := func(name string, code int32) *v1.PodStatus {
		return &v1.PodStatus{
			InitContainerStatuses: []v1.ContainerStatus{{Name: "i0"}},
			ContainerStatuses:     []v1.ContainerStatus{{Name: name, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}}},
		}
	}
	condition := func(s v1.ConditionStatus) *v1.PodStatus {
		return &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}, {Type: v1.AllContainersRestarting, Status: s}}}
	}
	for _, tc := range []struct {
		name      string
		pod       *v1.Pod
		observed  *observed.Pod
		published *v1.PodStatus
		want      bool
	}{
		{"nothing", resetPod("a"), observedPod(ready()), nil, false},
		{"exit of a regular one", resetPod("a"), observedPod(ready(), exited("a", 42)), nil, true},
		{"exit of an init container", resetPod("i0"), observedPod(ready(), exited("i0", 42)), nil, true},
		{"another code", resetPod("a"), observedPod(ready(), exited("a", 1)), nil, false},
		{"another container", resetPod("a"), observedPod(ready(), exited("b", 42)), nil, false},
		{"it runs again", resetPod("a"), observedPod(ready(), running("a"), exited("a", 42)), nil, false},
		{"no exit code yet", with(resetPod(), own("a", v1.ContainerRestartPolicyNever, onExit(v1.ContainerRestartRuleActionRestartAllContainers, 0))), observedPod(ready(), running("a")), nil, false},
		{"an earlier rule wins", with(resetPod(), own("a", v1.ContainerRestartPolicyNever, onExit(v1.ContainerRestartRuleActionRestart, 42), all42)), observedPod(ready(), exited("a", 42)), nil, false},
		{"published, and lost by the runtime", resetPod("a"), observedPod(ready()), published("a", 42), true},
		{"published, and runs again", resetPod("a"), observedPod(ready(), running("a")), published("a", 42), false},
		{"published, another code", resetPod("a"), observedPod(ready()), published("a", 1), false},
		{"published of another", resetPod("a"), observedPod(ready()), published("b", 42), false},
		{"begun", resetPod("a"), observedPod(ready(), running("b")), condition(v1.ConditionTrue), true},
		{"not begun", resetPod("a"), observedPod(ready(), running("b")), condition(v1.ConditionFalse), false},
		{"begun, but no rule says so", resetPod(), observedPod(ready()), condition(v1.ConditionTrue), false},
		{"deleted", with(resetPod("a"), deleted), observedPod(ready(), exited("a", 42)), nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, RestartAllTriggered(tc.pod, tc.observed, tc.published))
		})
	}
}
