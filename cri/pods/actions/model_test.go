package actions

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

// model is a runtime and an agent that does what Compute says, both as small as
// can be, and a memory of what really happened, which the decision does not have.
// All that is random comes from dice.
type model struct {
	t    *testing.T
	pod  *v1.Pod
	dice *dice

	status            observed.Pod
	startup, liveness map[string]probe.Verdict // by instance
	actuated          map[string]v1.ResourceRequirements
	made              int // objects made so far: names them, and is the time

	truth map[string]*history
	// resetting tells that a restart of all containers has begun and that
	// something of before is left.
	resetting bool
}

// history is what really happened to a container.
type history struct {
	// done tells that a plain init container has succeeded in this sandbox, up
	// that a sidecar has started in it.
	done, up bool
	// ended is the end of the last instance, nil when none ran; last is when that
	// was created.
	ended *ending
	last  time.Time
	// starts counts the starts.
	starts int
}

// ending is how an instance ended.
type ending struct {
	code int32
	oom  bool
	// replaced tells that it was stopped to be replaced, whatever the policy says:
	// it may run again. Only if the agent dies on the way, nobody knows.
	replaced bool
}

// dice are random choices, all 0 when they are used up.
type dice struct{ bytes []byte }

func (d *dice) roll(n int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b) % n
}

// chance is true once in n times, never when the dice are used up.
func (d *dice) chance(n int) bool { return d.roll(n) == n-1 }

func newModel(t *testing.T, pod *v1.Pod, bytes []byte) *model {
	m := &model{
		t: t, pod: pod, dice: &dice{bytes}, truth: map[string]*history{}, actuated: map[string]v1.ResourceRequirements{},
		startup: map[string]probe.Verdict{}, liveness: map[string]probe.Verdict{},
	}
	for _, c := range m.specs() {
		m.truth[c.Name] = &history{}
	}
	return m
}

// specs are all containers of the pod.
func (m *model) specs() []*v1.Container {
	var out []*v1.Container
	for _, list := range [][]v1.Container{m.pod.Spec.InitContainers, m.pod.Spec.Containers} {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	for i := range m.pod.Spec.EphemeralContainers {
		c := v1.Container(m.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		out = append(out, &c)
	}
	return out
}

// must fails the test with the pod and what there is of it.
func (m *model) must(ok bool, format string, args ...any) {
	if !ok {
		m.t.Helper()
		require.FailNow(m.t, fmt.Sprintf(format, args...), "pod: %+v\n%+v", m.pod.Spec, m.status)
	}
}

func (m *model) sandbox() *observed.Sandbox {
	if len(m.status.Sandboxes) == 0 {
		return nil
	}
	return &m.status.Sandboxes[0]
}

func (m *model) compute() Actions {
	status := m.status
	status.Sandboxes, status.Containers = slices.Clone(status.Sandboxes), slices.Clone(status.Containers)
	in := Input{
		Pod: m.pod, Status: &status, Probes: results(m.startup, m.liveness),
		Actuated: &Actuated{Containers: m.actuated}, RestartAll: RestartAllTriggered(m.pod, &status, nil),
	}
	return decide(m.t, in)
}

// ended writes down the end of an instance.
func (m *model) ended(s *observed.Container, e *ending) {
	h := m.truth[s.Name]
	if s.CreatedAt.Before(h.last) {
		h.ended.replaced = true // its twin has ended before: both may be meant
		return
	}
	h.ended, h.last = e, s.CreatedAt
	if e.code == 0 && !e.oom && m.sandbox() != nil && s.SandboxID == m.sandbox().ID {
		h.done = true
	}
}

// exit ends an instance in the runtime.
func (m *model) exit(s *observed.Container, code int32, reason string) {
	s.State, s.ExitCode, s.Reason = observed.StateExited, code, reason
}

func (m *model) find(id observed.ContainerID) *observed.Container {
	i := slices.IndexFunc(m.status.Containers, func(c observed.Container) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &m.status.Containers[i]
}

func (m *model) remove(id observed.ContainerID) {
	m.status.Containers = slices.DeleteFunc(m.status.Containers, func(c observed.Container) bool { return c.ID == id })
}

func (m *model) make(prefix string) (string, time.Time) {
	m.made++
	return fmt.Sprintf("%s-%d", prefix, m.made), time.Unix(int64(m.made), 0)
}

// alive tells whether an instance runs, or may.
func alive(s *observed.Container) bool {
	return s.State == observed.StateRunning || s.State == observed.StateUnknown
}

// permitted tells whether a container may run once more.
func permitted(pod *v1.Pod, c *v1.Container, e *ending) bool {
	return e == nil || e.replaced || owed(pod, c, e)
}

// owed tells, from the API's documentation and not from the code, whether policy
// and rules bring a container back.
func owed(pod *v1.Pod, c *v1.Container, e *ending) bool {
	policy := pod.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		policy = v1.RestartPolicy(*c.RestartPolicy)
		for _, r := range c.RestartPolicyRules {
			if slices.Contains(r.ExitCodes.Values, e.code) == (r.ExitCodes.Operator == v1.ContainerRestartRuleOnExitCodesOpIn) {
				return true
			}
		}
	}
	switch policy {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return e.code != 0 || c.Name[0] == 'i' && e.oom
	default:
		return true
	}
}

// randomPod makes a pod of random containers.
func randomPod(d *dice) *v1.Pod {
	names := []string{}
	for i := range d.roll(4) {
		names = append(names, []string{"i", "s"}[d.roll(2)]+string('0'+rune(i)))
	}
	names = append(names, []string{"a", "b", "c"}[:1+d.roll(3)]...)
	if d.roll(2) == 1 {
		names = append(names, "e0")
	}
	pod := testPod([]v1.RestartPolicy{always, onFailure, never}[d.roll(3)], names...)
	pod.UID = types.UID("random")
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if podfacts.IsSidecar(c) && d.roll(2) == 1 {
			c.StartupProbe = &v1.Probe{}
		}
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			randomPolicy(d, &list[i])
		}
	}
	return pod
}

func randomPolicy(d *dice, c *v1.Container) {
	if podfacts.IsSidecar(c) || !d.chance(3) {
		return
	}
	c.RestartPolicy = new([]v1.ContainerRestartPolicy{v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever}[d.roll(3)])
	if c.Name[0] == 'i' && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
		c.RestartPolicy = new(v1.ContainerRestartPolicyNever) // else it is a sidecar
	}
	if d.roll(2) == 1 {
		action := []v1.ContainerRestartRuleAction{v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers}[d.roll(2)]
		c.RestartPolicyRules = []v1.ContainerRestartRule{onExit(action, 42)}
		if action == v1.ContainerRestartRuleActionRestart && d.roll(2) == 1 {
			c.RestartPolicyRules[0].ExitCodes = &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpNotIn, Values: []int32{0, 1}}
		}
	}
	c.ResizePolicy = [][]v1.ContainerResizePolicy{nil, restartOn(v1.ResourceCPU)}[d.roll(2)]
}
