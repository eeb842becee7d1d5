package actions

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg/observed"
)

// What runs in the pod's sandbox and is not in its spec is stopped, and what was about
// to run there is removed. That keeps nobody waiting.
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

// A sandbox that was made for another name or namespace is not the pod's, and what is in
// it says nothing about the pod: it begins anew.
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

// Compute refuses an input without its parts, and the status of another pod.
func TestComputeChecks(t *testing.T) {
	for _, in := range []Input{{}, {Pod: testPod(always, "a")}, {Status: observedPod(nil)}} {
		_, err := Compute(in)
		require.EqualError(t, err, "actions: Input.Pod and Input.Status are required")
	}
	other := observedPod(ready(), running("b"))
	other.UID = "0ther"
	_, err := Compute(Input{Pod: testPod(always, "a"), Status: other})
	require.EqualError(t, err, `actions: Input.Status is of the pod with the UID "0ther", Input.Pod is "0d1e"`)
}
