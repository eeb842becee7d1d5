package actions

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

// TestRegular covers each cell of the table in section 4.4, C15 to C18. Container b always runs.
func TestRegular(t *testing.T) {
	a := func(p v1.RestartPolicy, changes ...func(*v1.Pod)) *v1.Pod {
		return with(testPod(p, "a", "b"), changes...)
	}
	restart42 := onExit(v1.ContainerRestartRuleActionRestart, 42)
	failed := map[string]probe.Verdict{"a-running": probe.Failure}
	start := summary{regular: []int{0}}
	killed := func(reason string, regular ...int) summary {
		return summary{kill: []string{"a-running " + reason}, regular: regular}
	}
	for _, tc := range []decisionCase{
		{name: "absent", pod: a(never), want: start},
		{name: "absent, deleted", pod: a(always, deleted)},
		{name: "created is replaced", pod: a(never), containers: list(created("a")), want: summary{regular: []int{0}, remove: []string{"a-created"}}},
		{name: "created, deleted", pod: a(never, deleted), containers: list(created("a")), want: summary{remove: []string{"a-created"}}},
		{name: "unknown is stopped first", pod: a(never), containers: list(unknown("a")), want: summary{regular: []int{0}, kill: []string{"a-unknown "}}},
		{name: "unknown, deleted", pod: a(never, deleted), containers: list(unknown("a")), want: summary{kill: []string{"a-unknown "}}},
		{name: "exited 0, always", pod: a(always), containers: list(exited("a", 0)), want: start},
		{name: "exited 0, unknown policy is always", pod: a("Sometimes"), containers: list(exited("a", 0)), want: start},
		{name: "exited 0, on failure", pod: a(onFailure), containers: list(exited("a", 0))},
		{name: "exited 1, on failure", pod: a(onFailure), containers: list(exited("a", 1)), want: start},
		{name: "exited 1, never", pod: a(never), containers: list(exited("a", 1))},
		{name: "exited 1, deleted", pod: a(always, deleted), containers: list(exited("a", 1))},
		{name: "exited 1, own policy never", pod: a(always, own("a", v1.ContainerRestartPolicyNever)), containers: list(exited("a", 1))},
		{name: "exited 0, own policy always", pod: a(never, own("a", v1.ContainerRestartPolicyAlways)), containers: list(exited("a", 0)), want: start},
		{name: "C18 rule matches", pod: a(always, own("a", v1.ContainerRestartPolicyNever, restart42)), containers: list(exited("a", 42)), want: start},
		{name: "C18 rule misses", pod: a(always, own("a", v1.ContainerRestartPolicyNever, restart42)), containers: list(exited("a", 1))},
		{name: "C18 a rule without a policy does not count", pod: a(never, func(pod *v1.Pod) { pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{restart42} }), containers: list(exited("a", 42))},
		{name: "running", pod: a(always), containers: list(running("a"))},
		{name: "C16 image changed", pod: a(never), containers: list(running("a", otherHash)), want: killed("", 0)},
		{name: "image changed, deleted", pod: a(never, deleted), containers: list(running("a", otherHash)), want: killed("")},
		{name: "unknown hash is not another hash", pod: a(always), containers: list(running("a", noHash))},
		{name: "liveness failed, always", pod: a(always), containers: list(running("a")), liveness: failed, want: killed("LivenessProbe", 0)},
		{name: "liveness failed, never", pod: a(never), containers: list(running("a")), liveness: failed, want: killed("LivenessProbe")},
		{name: "liveness failed, own policy", pod: a(never, own("a", v1.ContainerRestartPolicyOnFailure)), containers: list(running("a")), liveness: failed, want: killed("LivenessProbe", 0)},
		{name: "liveness failed, rules do not count", pod: a(always, own("a", v1.ContainerRestartPolicyNever, restart42)), containers: list(running("a")), liveness: failed, want: killed("LivenessProbe")},
		{name: "liveness failed, deleted", pod: a(always, deleted), containers: list(running("a")), liveness: failed, want: killed("LivenessProbe")},
		{name: "startup failed, on failure", pod: a(onFailure), containers: list(running("a")), startup: failed, want: killed("StartupProbe", 0)},
		{name: "startup failed, never", pod: a(never), containers: list(running("a")), startup: failed, want: killed("StartupProbe")},
		{name: "unknown results", pod: a(always), containers: list(running("a")), startup: map[string]probe.Verdict{"a-running": probe.Unknown}, liveness: map[string]probe.Verdict{"a-running": probe.Unknown}},
		{name: "results of another instance", pod: a(always), containers: list(running("a")), liveness: map[string]probe.Verdict{"old": probe.Failure}},
		{name: "created beside running", pod: a(always), containers: list(created("a"), running("a")), want: summary{remove: []string{"a-created"}}},
		{name: "two running", pod: a(always), containers: list(running("a"), running("a", id("older"))), want: summary{kill: []string{"older "}}},
		{name: "an unknown one beside running", pod: a(always), containers: list(running("a"), unknown("a")), want: summary{kill: []string{"a-unknown "}}},
		{name: "running, though an exited one looks newer", pod: a(always), containers: list(exited("a", 1), running("a"))},
		{name: "exited in an earlier sandbox, on failure", pod: a(onFailure), containers: list(exited("a", 0, in("r")))},
		{name: "failed in an earlier sandbox, on failure", pod: a(onFailure), containers: list(exited("a", 1, in("r"))), want: start},
		{name: "left over in an earlier sandbox, always", pod: a(always), containers: list(running("a", in("r"))), want: killed("", 0)},
		{name: "left over in an earlier sandbox, never", pod: a(never), containers: list(running("a", in("r"))), want: killed("")},
		{name: "here and left over in an earlier sandbox", pod: a(always), containers: list(running("a", in("r"), id("old")), running("a")), want: summary{kill: []string{"old "}}},
	} {
		tc.containers = append(tc.containers, running("b"))
		tc.run(t)
	}
}

// C15: if no container runs or may restart, the pod is stopped. Kill reasons of single
// containers are kept, and no container starts.
func TestNothingLeft(t *testing.T) {
	failed := map[string]probe.Verdict{"a-running": probe.Failure}
	for _, tc := range []decisionCase{
		{name: "never", pod: testPod(never, "a"), containers: list(exited("a", 1)), want: summary{end: true}},
		{name: "on failure", pod: testPod(onFailure, "a", "b"), containers: list(exited("a", 0), exited("b", 0)), want: summary{end: true}},
		{name: "one is left", pod: testPod(onFailure, "a", "b"), containers: list(exited("a", 0), exited("b", 1)), want: summary{regular: []int{1}}},
		{name: "the last fails its probe", pod: testPod(never, "a"), containers: list(running("a")), liveness: failed, want: summary{end: true, kill: []string{"a-running LivenessProbe"}}},
		{name: "the last fails its probe, and a rule will see its exit code", pod: with(testPod(never, "a"), own("a", v1.ContainerRestartPolicyNever, onExit(v1.ContainerRestartRuleActionRestart, 137))), containers: list(running("a")), liveness: failed, want: summary{kill: []string{"a-running LivenessProbe"}}},
		{name: "the last fails its probe, and rules without a policy are none", pod: with(testPod(never, "a"), func(pod *v1.Pod) {
			pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{onExit(v1.ContainerRestartRuleActionRestart, 137)}
		}), containers: list(running("a")), liveness: failed, want: summary{end: true, kill: []string{"a-running LivenessProbe"}}},
		{name: "the exit code decides", pod: with(testPod(never, "a"), own("a", v1.ContainerRestartPolicyNever, onExit(v1.ContainerRestartRuleActionRestart, 137))), containers: list(exited("a", 137)), want: summary{regular: []int{0}}},
		{name: "the exit code does not decide", pod: with(testPod(never, "a"), own("a", v1.ContainerRestartPolicyNever, onExit(v1.ContainerRestartRuleActionRestart, 42))), containers: list(exited("a", 137)), want: summary{end: true}},
		{name: "ephemeral containers do not keep it up", pod: testPod(never, "a", "e0", "e1"), containers: list(exited("a", 0), running("e0")), want: summary{end: true}},
		{name: "deleted", pod: with(testPod(always, "a"), deleted), containers: list(exited("a", 0)), want: summary{end: true}},
		{name: "deleted, unknown, and its sidecar is lost", pod: with(testPod(always, "s", "a"), deleted), containers: list(unknown("a"))},
		{name: "deleted, exited, and its sidecar is lost", pod: with(testPod(always, "s", "a"), deleted), containers: list(exited("a", 1)), want: summary{end: true}},
		{name: "deleted, never started", pod: with(testPod(always, "a"), deleted), want: summary{end: true}},
		{name: "deleted, created", pod: with(testPod(always, "a"), deleted), containers: list(created("a")), want: summary{end: true}},
		{name: "deleted, unknown", pod: with(testPod(always, "a"), deleted), containers: list(unknown("a")), want: summary{end: true, kill: []string{"a-unknown "}}},
		{name: "deleted, another image", pod: with(testPod(always, "a"), deleted), containers: list(running("a", otherHash)), want: summary{end: true, kill: []string{"a-running "}}},
		{name: "deleted, fails its probe, restarts whatever its rules", pod: with(testPod(always, "a"), own("a", v1.ContainerRestartPolicyAlways, onExit(v1.ContainerRestartRuleActionRestart, 137)), deleted), containers: list(running("a")), liveness: failed, want: summary{end: true, kill: []string{"a-running LivenessProbe"}}},
		{name: "one has not had its turn, and its sidecar has not started", pod: with(testPod(onFailure, "s", "a", "b"), startupProbe("s")), containers: list(running("s", func(c *observed.Container) { c.CreatedAt = time.Unix(2, 0) }), exited("a", 0))},
	} {
		tc.run(t)
	}
}

// Ephemeral containers start at any stage of the pod, and only once.
func TestEphemeral(t *testing.T) {
	for _, tc := range []decisionCase{
		{name: "beside init", pod: testPod(always, "i", "a", "e0", "e1"), containers: list(running("i")), want: summary{ephemeral: []int{0, 1}}},
		{name: "with the first init container", pod: testPod(always, "i", "a", "e0"), want: summary{ephemeral: []int{0}, init: []int{0}}},
		{name: "added to a running pod", pod: testPod(always, "a", "e0", "e1"), containers: list(running("a"), running("e0")), want: summary{ephemeral: []int{1}}},
		{name: "never again", pod: testPod(always, "a", "e0"), containers: list(running("a"), exited("e0", 1))},
		{name: "never again in another sandbox", pod: testPod(always, "a", "e0"), containers: list(running("a"), exited("e0", 1, in("r")))},
		{name: "unknown is not touched", pod: testPod(always, "a", "e0"), containers: list(running("a"), unknown("e0"))},
		{name: "created never ran", pod: testPod(always, "a", "e0"), containers: list(running("a"), created("e0")), want: summary{remove: []string{"e0-created"}, ephemeral: []int{0}}},
		{name: "deleted", pod: with(testPod(always, "a", "e0"), deleted), containers: list(running("a"))},
		{name: "runs twice", pod: testPod(always, "a", "e0"), containers: list(running("a"), running("e0"), unknown("e0")), want: summary{kill: []string{"e0-unknown "}}},
	} {
		tc.run(t)
	}
}

// C17: only a change of name or image replaces a container.
func TestSameHash(t *testing.T) {
	pod := testPod(always, "s", "a")
	for _, c := range []*v1.Container{podfacts.Container(pod, "s"), podfacts.Container(pod, "a")} {
		c.Env = []v1.EnvVar{{Name: "X", Value: "y"}}
		c.LivenessProbe, c.ReadinessProbe = &v1.Probe{}, &v1.Probe{}
		c.Resources.Limits = v1.ResourceList{}
		c.Command = []string{"true"}
	}
	require.Equal(t, Actions{SandboxID: "s"}, decide(t, Input{Pod: pod, Status: observedPod(ready(), running("a"), running("s"))}))
	for vector, want := range map[[2]string]uint64{{"test_container", "foo/image:v1"}: 0x8e45cbd0, {"a", "busybox"}: 0x5264866e, {"c1", "registry.k8s.io/pause:3.10"}: 0x4377ccae} {
		require.Equal(t, want, podfacts.Hash(&v1.Container{Name: vector[0], Image: vector[1]}))
	}
}

// C50: containers of any kind that another agent started are kept unchanged.
func TestTakeOver(t *testing.T) {
	pod := with(testPod(always, "i0", "s1", "i2", "a", "b", "e"), startupProbe("s1"))
	status := observedPod(ready(), running("e"), running("b"), running("a"), exited("b", 1), exited("i2", 0), running("s1"), exited("i0", 0))
	require.Equal(t, Actions{SandboxID: "s"}, decide(t, Input{Pod: pod, Status: status}))
	status.Containers = []observed.Container{running("b"), running("a"), running("s1"), running("e")}
	require.Empty(t, decide(t, Input{Pod: pod, Status: status, Actuated: &Actuated{}}).Kill, "without a checkpoint, and init containers removed")
}

// Event messages mention a restart if and only if it follows. In a pod that is being deleted no
// container restarts.
func TestMessages(t *testing.T) {
	failed, failedA := map[string]probe.Verdict{"s-running": probe.Failure}, map[string]probe.Verdict{"a-running": probe.Failure}
	awaited := own("i", v1.ContainerRestartPolicyNever, onExit(v1.ContainerRestartRuleActionRestart, 42))
	for _, tc := range []struct {
		pod               *v1.Pod
		containers        []observed.Container
		startup, liveness map[string]probe.Verdict
		want              string
		restarted         bool
	}{
		{testPod(always, "a"), list(running("a", otherHash)), nil, nil, "Container a definition changed", true},
		{testPod(always, "a"), list(unknown("a")), nil, nil, "Container a is in unknown state, it is stopped before it is restarted", false},
		{testPod(always, "a"), list(running("a"), running("b")), nil, nil, "Container b is not in the pod's spec", false},
		{testPod(always, "a"), list(running("a"), running("a", id("old"))), nil, nil, "Container a has another instance", false},
		{testPod(always, "i", "a"), list(unknown("i")), nil, nil, "Init container i is in unknown state, it is stopped before it is restarted", false},
		{with(testPod(always, "i", "a"), awaited), list(unknown("i")), nil, nil, "Init container i is in unknown state", false},
		{testPod(always, "s", "a"), list(unknown("s"), running("a")), nil, nil, "Init container s is in unknown state, it is stopped before it is restarted", false},
		{testPod(always, "s", "a"), list(running("s", otherHash), running("a")), nil, nil, "Init container s definition changed", true},
		{testPod(always, "s", "a"), list(running("s"), running("a")), nil, failed, "Init container s failed liveness probe", true},
		{with(testPod(always, "s", "a"), startupProbe("s")), list(running("s"), running("a")), failed, nil, "Init container s failed startup probe", true},
		{testPod(never, "a", "b"), list(running("a"), running("b")), nil, failedA, "Container a failed liveness probe", false},
		{testPod(never, "a", "b"), list(running("a"), running("b")), failedA, nil, "Container a failed startup probe", false},
		{testPod(never, "a", "b"), list(running("a", in("r")), running("b")), nil, nil, "Container a is left over from an earlier sandbox", false},
	} {
		for _, gone := range []bool{false, true} {
			want := tc.want
			if gone {
				tc.pod.DeletionTimestamp = &metav1.Time{}
			} else if tc.restarted {
				want += ", will be restarted"
			}
			a := decide(t, Input{Pod: tc.pod, Status: observedPod(ready(), tc.containers...), Probes: results(tc.startup, tc.liveness)})
			require.Len(t, a.Kill, 1, tc.want)
			require.Equal(t, want, a.Kill[0].Message)
		}
	}
}

func TestExplanation(t *testing.T) {
	for _, tc := range []struct {
		pod        *v1.Pod
		containers []observed.Container
		want       string
	}{
		{testPod(always, "i", "a"), nil, "init container i runs first"},
		{testPod(always, "i", "a"), list(running("i")), "init container i is running"},
		{testPod(always, "i0", "i1", "a"), list(exited("i0", 0)), "init container i1 runs first"},
		{testPod(never, "i", "a"), list(exited("i", 3)), "init container i failed with exit code 3 and does not restart"},
		{testPod(never, "i", "a"), list(unknown("i")), "init container i is in unknown state and does not restart"},
		{with(testPod(always, "s", "a"), startupProbe("s")), list(running("s")), "init container s runs, its startup probe has not succeeded yet"},
		{with(testPod(always, "s", "a"), startupProbe("s")), list(running("s"), running("a")), ""},
		{with(testPod(always, "s", "a"), startupProbe("s")), list(running("s", func(c *observed.Container) { c.CreatedAt = time.Unix(2, 0) }), exited("a", 1)), "init container s runs, its startup probe has not succeeded yet"},
		{with(testPod(always, "s0", "s1", "a"), startupProbe("s0")), list(running("s0"), running("s1")), ""},
		{with(testPod(always, "s0", "s1", "a"), startupProbe("s0")), list(running("s0")), "init container s0 runs, its startup probe has not succeeded yet"},
		{with(testPod(always, "s0", "i1", "i2", "a"), startupProbe("s0")), list(running("s0"), exited("i1", 0)), "init container i2 runs first"},
		{with(testPod(always, "i", "a"), own("i", v1.ContainerRestartPolicyNever, onExit(v1.ContainerRestartRuleActionRestart, 42))), list(unknown("i")), "the exit code of init container i decides whether it restarts"},
		{testPod(never, "a"), list(exited("a", 3)), "no container runs or may restart"},
		{testPod(never, "s", "a"), list(exited("a", 3), exited("s", 0)), "all containers have exited"},
		{with(testPod(always, "a"), deleted), list(running("a")), "the pod is being deleted"},
		{testPod(always, "a"), list(running("a")), ""},
		{testPod(always, "a"), list(exited("a", 0)), ""},
	} {
		require.Equal(t, tc.want, decide(t, Input{Pod: tc.pod, Status: observedPod(ready(), tc.containers...)}).Explanation)
	}
}

// Compute does not change its input.
func TestInputIsNotChanged(t *testing.T) {
	pod := with(testPod(always, "i0", "s1", "a", "b", "e"), startupProbe("s1"))
	podfacts.Container(pod, "a").Resources = res("1", "1", "1Mi", "1Mi")
	before := pod.DeepCopy()
	containers := list(created("b"), exited("b", 1), running("a", otherHash), running("a", id("2")), running("s1"), exited("i0", 0), exited("i0", 1))
	in := Input{Pod: pod, Status: observedPod(ready(), containers...), Actuated: &Actuated{}}
	first := decide(t, in)
	first.Remove[0].Name = "changed"
	require.Equal(t, before, pod)
	require.Equal(t, observedPod(ready(), list(created("b"), exited("b", 1), running("a", otherHash), running("a", id("2")), running("s1"), exited("i0", 0), exited("i0", 1))...), in.Status)
}
