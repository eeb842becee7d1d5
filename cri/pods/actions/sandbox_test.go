package actions

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg/observed"
)

// C1 to C7: when a sandbox is made, and what starts in it.
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
		{"an older one that is not ready is no matter", two(always), readyAndDead, Actions{SandboxID: "s", StartRegular: both}},
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
			"never, a rule knows no exit code of what is in unknown state", two(never, own("b", v1.ContainerRestartPolicyNever, onExit(v1.ContainerRestartRuleActionRestart, 0))), observedPod(dead(), exited("a", 0), unknown("b")),
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
		{"never, a policy of its own that is spent brings nobody along", two(never, own("b", v1.ContainerRestartPolicyOnFailure)), observedPod(dead(), exited("b", 0)), end},
		{"never, as its own policy as well", two(never, own("b", v1.ContainerRestartPolicyNever)), observedPod(dead(), exited("a", 0)), end},
		{"always", two(always), observedPod(dead(), exited("a", 0), running("b")), starting(next, both...)},
		{"always, but one has run and never restarts", two(always, own("a", v1.ContainerRestartPolicyNever)), observedPod(dead(), exited("a", 0), running("b")), starting(next, 1)},
		{
			"a new sandbox begins with the first init container", testPod(always, "i1", "s2", "a"), observedPod(dead(), exited("a", 255), running("s2"), exited("i1", 0)),
			Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, StartInit: []int{0}, PruneInit: []observed.Container{running("s2"), exited("i1", 0)}},
		},
		{"only what never ran is left over, and init is to run", testPod(onFailure, "i1", "a"), observedPod(dead(), exited("i1", 0), exited("a", 0)), end},
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
