package pods

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/pleg"
)

func container(name string, state pleg.State, change ...func(*pleg.ContainerStatus)) pleg.ContainerStatus {
	c := pleg.ContainerStatus{
		ID: pleg.ContainerID{Runtime: "fake", ID: name + "-" + state.String()}, Name: name, SandboxID: "s", State: state,
		Hash: Hash(&v1.Container{Name: name, Image: "busybox"}),
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func exit(code int32) func(*pleg.ContainerStatus) {
	return func(c *pleg.ContainerStatus) { c.ExitCode = code }
}

func id(s string) func(*pleg.ContainerStatus) {
	return func(c *pleg.ContainerStatus) { c.ID.ID = s }
}

func ready() *pleg.Sandbox {
	return &pleg.Sandbox{ID: "s", State: pleg.SandboxReady, HasNetworkStatus: true, IPs: []string{"10.0.0.2"}}
}

func dead() *pleg.Sandbox {
	return &pleg.Sandbox{ID: "s", State: pleg.SandboxNotReady, HasNetworkStatus: true}
}

func kills(a Actions) []string {
	var out []string
	for _, k := range a.Kill {
		out = append(out, k.ID.ID+" "+string(k.Reason))
	}
	return out
}

func removals(a Actions) []string {
	var out []string
	for _, c := range a.Remove {
		out = append(out, c.ID.ID)
	}
	return out
}

// C1 to C7: when a sandbox is made, and what starts in it.
func TestActionsSandbox(t *testing.T) {
	twoReady := observed(ready())
	twoReady.Sandboxes = []pleg.Sandbox{{ID: "t", State: pleg.SandboxReady, Attempt: 4}, *ready()}
	noIP, noNetwork, hostNetwork := ready(), ready(), ready()
	noIP.IPs = nil
	noNetwork.IPs, noNetwork.HasNetworkStatus = nil, false
	hostNetwork.HostNetwork = true
	both := []int{0, 1}
	for _, tc := range []struct {
		name   string
		policy v1.RestartPolicy
		status *pleg.PodStatus
		want   Actions
	}{
		{"C1 nothing yet", v1.RestartPolicyAlways, observed(nil), Actions{KillPod: true, CreateSandbox: true, Start: both}},
		{"C2 two ready", v1.RestartPolicyAlways, twoReady, Actions{KillPod: true, CreateSandbox: true, SandboxID: "t", Attempt: 5, Start: both}},
		{"C3 lost address", v1.RestartPolicyAlways, observed(noIP), Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: both}},
		{"C3 no network status", v1.RestartPolicyAlways, observed(noNetwork), Actions{SandboxID: "s", Start: both}},
		{"C4 other network", v1.RestartPolicyAlways, observed(hostNetwork), Actions{KillPod: true, CreateSandbox: true, Attempt: 1, Start: both}},
		{"C5 never, one has run", v1.RestartPolicyNever, observed(dead(), container("a", pleg.StateExited)), Actions{KillPod: true, SandboxID: "s", Attempt: 1}},
		{"C5 never, nothing has run", v1.RestartPolicyNever, observed(dead()), Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: both}},
		{
			"C6 never, created is not run", v1.RestartPolicyNever, observed(dead(), container("a", pleg.StateCreated)),
			Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: both, Remove: []pleg.ContainerStatus{container("a", pleg.StateCreated)}},
		},
		{
			"C7 on failure, all succeeded", v1.RestartPolicyOnFailure, observed(dead(), container("a", pleg.StateExited), container("b", pleg.StateExited)),
			Actions{KillPod: true, SandboxID: "s", Attempt: 1},
		},
		{
			"on failure, one failed", v1.RestartPolicyOnFailure, observed(dead(), container("a", pleg.StateExited), container("b", pleg.StateExited, exit(1))),
			Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: []int{1}},
		},
		{
			"always", v1.RestartPolicyAlways, observed(dead(), container("a", pleg.StateExited), container("b", pleg.StateRunning)),
			Actions{KillPod: true, CreateSandbox: true, SandboxID: "s", Attempt: 1, Start: both},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod("a", "b")
			pod.Spec.RestartPolicy = tc.policy
			require.Equal(t, tc.want, ComputeActions(ActionsInput{Pod: pod, Status: tc.status}))
		})
	}
}

// A pod that is being deleted gets no sandbox and no container.
func TestActionsDeleted(t *testing.T) {
	pod := testPod("a")
	pod.DeletionTimestamp = &metav1.Time{}
	require.Equal(t, Actions{KillPod: true}, ComputeActions(ActionsInput{Pod: pod, Status: observed(nil)}))
	a := ComputeActions(ActionsInput{Pod: pod, Status: observed(ready())})
	require.Empty(t, a.Start)
	require.True(t, a.KillPod)
	a = ComputeActions(ActionsInput{Pod: pod, Status: observed(ready(), container("a", pleg.StateRunning))})
	require.Equal(t, Actions{SandboxID: "s"}, a, "what runs is the terminating worker's")
}

// A container's own policy counts in a pod that never restarts (#118321).
func TestActionsSandboxOwnPolicy(t *testing.T) {
	pod := testPod("a", "b")
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	pod.Spec.Containers[1].RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
	a := ComputeActions(ActionsInput{Pod: pod, Status: observed(dead(), container("a", pleg.StateExited), container("b", pleg.StateExited))})
	require.True(t, a.CreateSandbox)
	require.Equal(t, []int{1}, a.Start)
}

// C15 to C18: regular containers in a good sandbox.
func TestActionsRegular(t *testing.T) {
	changed := func(c *pleg.ContainerStatus) { c.Hash++ }
	unknownHash := func(c *pleg.ContainerStatus) { c.Hash = 0 }
	running := container("b", pleg.StateRunning)
	for _, tc := range []struct {
		name   string
		policy v1.RestartPolicy
		a      []pleg.ContainerStatus
		start  bool
		kill   []string
		remove []string
	}{
		{name: "absent", policy: v1.RestartPolicyNever, start: true},
		{name: "created is replaced", policy: v1.RestartPolicyNever, a: []pleg.ContainerStatus{container("a", pleg.StateCreated)}, start: true, remove: []string{"a-created"}},
		{name: "unknown is stopped first", policy: v1.RestartPolicyNever, a: []pleg.ContainerStatus{container("a", pleg.StateUnknown)}, start: true, kill: []string{"a-unknown "}},
		{name: "running", policy: v1.RestartPolicyAlways, a: []pleg.ContainerStatus{container("a", pleg.StateRunning)}},
		{name: "exited, always", policy: v1.RestartPolicyAlways, a: []pleg.ContainerStatus{container("a", pleg.StateExited)}, start: true},
		{name: "exited 0, on failure", policy: v1.RestartPolicyOnFailure, a: []pleg.ContainerStatus{container("a", pleg.StateExited)}},
		{name: "exited 1, on failure", policy: v1.RestartPolicyOnFailure, a: []pleg.ContainerStatus{container("a", pleg.StateExited, exit(1))}, start: true},
		{name: "exited, never", policy: v1.RestartPolicyNever, a: []pleg.ContainerStatus{container("a", pleg.StateExited, exit(1))}},
		{name: "C16 image changed", policy: v1.RestartPolicyNever, a: []pleg.ContainerStatus{container("a", pleg.StateRunning, changed)}, start: true, kill: []string{"a-running "}},
		{name: "unknown hash is not another hash", policy: v1.RestartPolicyAlways, a: []pleg.ContainerStatus{container("a", pleg.StateRunning, unknownHash)}},
		{
			name: "created beside running", policy: v1.RestartPolicyAlways,
			a: []pleg.ContainerStatus{container("a", pleg.StateCreated), container("a", pleg.StateRunning)}, remove: []string{"a-created"},
		},
		{
			name: "two running", policy: v1.RestartPolicyAlways,
			a: []pleg.ContainerStatus{container("a", pleg.StateRunning), container("a", pleg.StateRunning, id("older"))}, kill: []string{"older "},
		},
		{
			name: "running, though an exited one looks newer", policy: v1.RestartPolicyAlways,
			a: []pleg.ContainerStatus{container("a", pleg.StateExited), container("a", pleg.StateRunning)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod("a", "b")
			pod.Spec.RestartPolicy = tc.policy
			a := ComputeActions(ActionsInput{Pod: pod, Status: observed(ready(), append(tc.a, running)...)})
			require.Equal(t, tc.start, len(a.Start) == 1)
			require.Equal(t, tc.kill, kills(a))
			require.Equal(t, tc.remove, removals(a))
			require.False(t, a.KillPod)
			require.False(t, a.CreateSandbox)
		})
	}
}

func TestActionsProbes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy v1.RestartPolicy
		in     ActionsInput
		start  bool
		kill   []string
	}{
		{"liveness", v1.RestartPolicyAlways, ActionsInput{Liveness: map[pleg.ContainerID]ProbeResult{{Runtime: "fake", ID: "a-running"}: ProbeFailure}}, true, []string{"a-running LivenessProbe"}},
		{"liveness, never", v1.RestartPolicyNever, ActionsInput{Liveness: map[pleg.ContainerID]ProbeResult{{Runtime: "fake", ID: "a-running"}: ProbeFailure}}, false, []string{"a-running LivenessProbe"}},
		{"startup", v1.RestartPolicyOnFailure, ActionsInput{Startup: map[pleg.ContainerID]ProbeResult{{Runtime: "fake", ID: "a-running"}: ProbeFailure}}, true, []string{"a-running StartupProbe"}},
		{"unknown", v1.RestartPolicyAlways, ActionsInput{Liveness: map[pleg.ContainerID]ProbeResult{{Runtime: "fake", ID: "a-running"}: ProbeUnknown}}, false, nil},
		{"of another instance", v1.RestartPolicyAlways, ActionsInput{Liveness: map[pleg.ContainerID]ProbeResult{{Runtime: "fake", ID: "old"}: ProbeFailure}}, false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.in.Pod = testPod("a", "b")
			tc.in.Pod.Spec.RestartPolicy = tc.policy
			tc.in.Status = observed(ready(), container("a", pleg.StateRunning), container("b", pleg.StateRunning))
			a := ComputeActions(tc.in)
			require.Equal(t, tc.start, len(a.Start) == 1)
			require.Equal(t, tc.kill, kills(a))
		})
	}
}

// C15: when nothing is left to run, the pod is stopped; the reasons of single
// containers are kept.
func TestActionsNothingLeft(t *testing.T) {
	pod := testPod("a")
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	a := ComputeActions(ActionsInput{Pod: pod, Status: observed(ready(), container("a", pleg.StateExited, exit(1)))})
	require.Equal(t, Actions{KillPod: true, SandboxID: "s"}, a)
	running := container("a", pleg.StateRunning)
	a = ComputeActions(ActionsInput{Pod: pod, Status: observed(ready(), running), Liveness: map[pleg.ContainerID]ProbeResult{running.ID: ProbeFailure}})
	require.True(t, a.KillPod)
	require.Equal(t, []string{"a-running LivenessProbe"}, kills(a))
}

// C18: restart rules count beside the container's own policy.
func TestActionsRestartRules(t *testing.T) {
	pod := testPod("a", "b")
	pod.Spec.Containers[0].RestartPolicy = ptr(v1.ContainerRestartPolicyNever)
	pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestart,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	for code, want := range map[int32][]int{42: {0}, 1: nil} {
		a := ComputeActions(ActionsInput{Pod: pod, Status: observed(ready(), container("a", pleg.StateExited, exit(code)), container("b", pleg.StateRunning))})
		require.Equal(t, want, a.Start, "exit code %d", code)
	}
}

// C17: only name and image make another container.
func TestActionsSameHash(t *testing.T) {
	pod := testPod("a")
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "X", Value: "y"}}
	pod.Spec.Containers[0].LivenessProbe = &v1.Probe{}
	pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{}
	a := ComputeActions(ActionsInput{Pod: pod, Status: observed(ready(), container("a", pleg.StateRunning))})
	require.Equal(t, Actions{SandboxID: "s"}, a)
}

// FuzzComputeActions holds what is true of every decision.
func FuzzComputeActions(f *testing.F) {
	f.Add(uint8(0), uint8(0), []byte{})
	f.Add(uint8(1), uint8(1), []byte{2, 3, 1})
	f.Add(uint8(2), uint8(2), []byte{0, 1, 2, 3, 131, 130})
	f.Fuzz(func(t *testing.T, policy, sandboxes uint8, containers []byte) {
		pod := testPod("a", "b")
		pod.Spec.RestartPolicy = []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}[policy%3]
		status := observed(nil)
		for i := range sandboxes % 4 {
			status.Sandboxes = append(status.Sandboxes, pleg.Sandbox{ID: string('s' + rune(i)), State: pleg.SandboxState(policy / 3 % 3), Attempt: uint32(9 - i)})
		}
		for _, b := range containers {
			name := map[bool]string{true: "a", false: "b"}[b&128 != 0]
			status.Containers = append(status.Containers, container(name, pleg.State(b&3), exit(int32(b>>2&1))))
		}
		a := ComputeActions(ActionsInput{Pod: pod, Status: status})
		require.False(t, a.CreateSandbox && !a.KillPod, "a new sandbox without the end of the old one")
		require.False(t, a.CreateSandbox && len(a.Start) == 0, "a sandbox for nothing")
		require.False(t, a.KillPod && !a.CreateSandbox && len(a.Start) > 0, "a start in a stopped pod")
		started := map[int]bool{}
		for _, i := range a.Start {
			require.False(t, started[i], "one container started twice")
			started[i] = true
			for _, c := range status.Containers {
				if c.Name == pod.Spec.Containers[i].Name && c.State == pleg.StateRunning && !a.KillPod {
					require.Contains(t, kills(a), c.ID.ID+" ", "started beside a running instance")
				}
			}
		}
	})
}
