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

// model combines a minimal runtime, an agent that carries out Compute's decisions, and the true
// history, which Compute does not receive. All random choices come from dice.
type model struct {
	t    *testing.T
	pod  *v1.Pod
	dice *dice

	status            observed.Pod
	startup, liveness map[string]probe.Verdict // by instance
	actuated          map[string]v1.ResourceRequirements
	made              int // number of objects made so far: used for names and as the time

	truth map[string]*history
	// resetting is true while a restart of all containers is in progress and earlier instances
	// remain.
	resetting bool
}

// history is the true history of a container.
type history struct {
	// done is true if a plain init container has succeeded in this sandbox, up if a sidecar has
	// started in it.
	done, up bool
	// ended is the end of the last instance, or nil if none ran. last is the creation time of
	// that instance.
	ended  *ending
	last   time.Time
	starts int
}

type ending struct {
	code int32
	oom  bool
	// replaced is true if it was stopped to be replaced, so it may run again regardless of its
	// policy. If the agent dies in between, the restart may be missing.
	replaced bool
}

// dice are random choices. After the last byte all rolls are 0.
type dice struct{ bytes []byte }

func (d *dice) roll(n int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b) % n
}

// chance returns true once in n times, and false after the last byte.
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

// specs returns all containers of the pod.
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

// must fails the test with the pod and its state.
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

// ended records the end of an instance.
func (m *model) ended(s *observed.Container, e *ending) {
	h := m.truth[s.Name]
	if s.CreatedAt.Before(h.last) {
		h.ended.replaced = true // the newer instance has already ended, so either may be meant
		return
	}
	h.ended, h.last = e, s.CreatedAt
	if e.code == 0 && !e.oom && m.sandbox() != nil && s.SandboxID == m.sandbox().ID {
		h.done = true
	}
}

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

// alive reports whether an instance is or may be running.
func alive(s *observed.Container) bool {
	return s.State == observed.StateRunning || s.State == observed.StateUnknown
}

// permitted reports whether a container may run again.
func permitted(pod *v1.Pod, c *v1.Container, e *ending) bool {
	return e == nil || e.replaced || owed(pod, c, e)
}

// owed reports whether policy and rules restart a container. It follows the API's documentation,
// independently of the code under test.
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

// randomPod returns a pod with random containers.
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
		c.RestartPolicy = new(v1.ContainerRestartPolicyNever) // otherwise it is a sidecar
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
