package actions

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testPod derives the kind of each container from the first letter of its name: i for init
// containers, s for sidecars, e for ephemeral ones. All others are regular.
func testPod(policy v1.RestartPolicy, names ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "0d1e"}, Spec: v1.PodSpec{RestartPolicy: policy}}
	for _, name := range names {
		c := v1.Container{Name: name, Image: "busybox"}
		switch name[0] {
		case 's':
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			fallthrough
		case 'i':
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		case 'e':
			pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: name, Image: "busybox"}})
		default:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

func with(pod *v1.Pod, changes ...func(*v1.Pod)) *v1.Pod {
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func deleted(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }

func startupProbe(name string) func(*v1.Pod) {
	return func(pod *v1.Pod) { podfacts.Container(pod, name).StartupProbe = &v1.Probe{} }
}

func own(name string, policy v1.ContainerRestartPolicy, rules ...v1.ContainerRestartRule) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		podfacts.Container(pod, name).RestartPolicy, podfacts.Container(pod, name).RestartPolicyRules = &policy, rules
	}
}

func onExit(action v1.ContainerRestartRuleAction, codes ...int32) v1.ContainerRestartRule {
	return v1.ContainerRestartRule{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: codes}}
}

type change = func(*observed.Container)

// container returns an instance in sandbox s with the ID "<name>-<state>".
func container(name string, state observed.State, changes ...change) observed.Container {
	c := observed.Container{
		ID: observed.ContainerID{Runtime: "fake", ID: name + "-" + state.String()}, Name: name, SandboxID: "s", State: state,
		Hash: podfacts.Hash(&v1.Container{Name: name, Image: "busybox"}),
	}
	for _, f := range changes {
		f(&c)
	}
	return c
}

func created(name string, changes ...change) observed.Container {
	return container(name, observed.StateCreated, changes...)
}

func running(name string, changes ...change) observed.Container {
	return container(name, observed.StateRunning, changes...)
}

func unknown(name string, changes ...change) observed.Container {
	return container(name, observed.StateUnknown, changes...)
}

func exited(name string, code int32, changes ...change) observed.Container {
	return container(name, observed.StateExited, append(changes, func(c *observed.Container) { c.ExitCode = code })...)
}

func id(s string) change              { return func(c *observed.Container) { c.ID.ID = s } }
func reason(s string) change          { return func(c *observed.Container) { c.Reason = s } }
func in(sandbox string) change        { return func(c *observed.Container) { c.SandboxID = sandbox } }
func otherHash(c *observed.Container) { c.Hash++ }
func noHash(c *observed.Container)    { c.Hash = 0 }

func ready() *observed.Sandbox {
	return &observed.Sandbox{ID: "s", State: observed.SandboxReady, HasNetworkStatus: true, IPs: []string{"10.0.0.2"}}
}

func dead() *observed.Sandbox {
	return &observed.Sandbox{ID: "s", State: observed.SandboxNotReady, HasNetworkStatus: true}
}

func observedPod(sandbox *observed.Sandbox, containers ...observed.Container) *observed.Pod {
	s := &observed.Pod{UID: "0d1e", Containers: containers}
	if sandbox != nil {
		s.Sandboxes = []observed.Sandbox{*sandbox}
	}
	return s
}

// results returns probe results by the ID of the instance.
func results(startup, liveness map[string]probe.Verdict) (out probe.Results) {
	for id, result := range startup {
		out = append(out, probe.Stored{ContainerID: "fake://" + id, Type: probe.Startup, Result: result})
	}
	for id, result := range liveness {
		out = append(out, probe.Stored{ContainerID: "fake://" + id, Type: probe.Liveness, Result: result})
	}
	return out
}

func kills(a Actions) []string {
	var out []string
	for _, k := range a.Kill {
		out = append(out, k.ID.ID+" "+string(k.Reason))
	}
	return out
}

func ids(list []observed.Container) []string {
	var out []string
	for _, c := range list {
		out = append(out, c.ID.ID)
	}
	return out
}

// summary is a short form of Actions for tables.
type summary struct {
	end       bool // KillPod without CreateSandbox
	kill      []string
	remove    []string
	prune     []string
	init      []int
	regular   []int
	ephemeral []int
}

func summarise(t *testing.T, a Actions) summary {
	t.Helper()
	require.False(t, a.CreateSandbox)
	return summary{
		end: a.KillPod, kill: kills(a), remove: ids(a.Remove), prune: ids(a.PruneInit),
		init: a.StartInit, regular: a.StartRegular, ephemeral: a.StartEphemeral,
	}
}

func decide(t testing.TB, in Input) Actions {
	t.Helper()
	a, err := Compute(in)
	require.NoError(t, err)
	return a
}
