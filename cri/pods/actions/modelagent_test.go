package actions

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

// outcome is the outcome of a runtime call.
type outcome int

const (
	done      outcome = iota
	lost              // the call took effect, but the caller gets an error
	refused           // the call did not take effect
	agentDies         // the call took effect, and then the agent is killed
)

func (m *model) outcome() outcome {
	switch m.dice.roll(32) {
	case 29:
		return lost
	case 30:
		return refused
	case 31:
		m.agentRestarts()
		return agentDies
	default:
		return done
	}
}

// agentRestarts drops the state that only the agent has in memory.
func (m *model) agentRestarts() {
	clear(m.startup)
	clear(m.liveness)
}

// apply carries out the actions in the order that Actions documents. It reports whether the pod
// is over.
func (m *model) apply(a Actions) {
	m.checkShape(a)
	if !m.stop(a) {
		return
	}
	if a.CreateSandbox && !m.createSandbox(a.Attempt) {
		return
	}
	for _, u := range append(slices.Clone(a.UpdateMemory), a.UpdateCPU...) {
		m.actuated[u.Name] = podfacts.Container(m.pod, u.Name).Resources
	}
	for _, name := range a.UpdateStopped {
		m.actuated[name] = podfacts.Container(m.pod, name).Resources
	}
	if m.startAll(m.ephemeralNames(), a.StartEphemeral) && m.startAll(containerNames(m.pod.Spec.InitContainers), a.StartInit) {
		m.startAll(containerNames(m.pod.Spec.Containers), a.StartRegular)
	}
}

func containerNames(list []v1.Container) []string {
	var out []string
	for i := range list {
		out = append(out, list[i].Name)
	}
	return out
}

func (m *model) ephemeralNames() []string {
	var out []string
	for i := range m.pod.Spec.EphemeralContainers {
		out = append(out, m.pod.Spec.EphemeralContainers[i].Name)
	}
	return out
}

// checkShape checks the invariants of every decision.
func (m *model) checkShape(a Actions) {
	m.must(!a.CreateSandbox || a.KillPod, "a new sandbox without the end of the old one")
	m.must(!a.CreateSandbox || a.Starts(), "a sandbox for nothing")
	m.must(!a.KillPod || a.CreateSandbox || !a.Starts() && !a.Resizes(), "a start in a stopped pod")
	m.must(len(a.Reset) == 0 || !a.KillPod && !a.Starts() && !a.Resizes() && len(a.Kill)+len(a.Remove)+len(a.PruneInit) == 0, "something beside a reset")
	m.must(m.pod.DeletionTimestamp == nil || !a.Starts() && len(a.Reset) == 0, "a start in a deleted pod")
	for _, list := range [][]int{a.StartEphemeral, a.StartInit, a.StartRegular} {
		m.must(slices.IsSorted(list) && len(slices.Compact(slices.Clone(list))) == len(list), "not in order, or twice: %v", list)
	}
	for _, k := range a.Kill {
		m.checkKill(k)
	}
	if a.Over() {
		m.checkOver()
	}
}

// checkKill checks that a running container is stopped only for a reason.
func (m *model) checkKill(k ContainerKill) {
	s := m.find(k.ID)
	m.must(s != nil && alive(s), "kill of %s, which does not run", k.ID.ID)
	c := podfacts.Container(m.pod, s.Name)
	twin := slices.ContainsFunc(m.status.Containers, func(o observed.Container) bool {
		return o.ID != s.ID && o.Name == s.Name && o.State != observed.StateExited
	})
	newer := slices.ContainsFunc(m.status.Containers, func(o observed.Container) bool {
		return o.Name == s.Name && o.CreatedAt.After(s.CreatedAt)
	})
	changed := m.status.SandboxChanged(m.pod.Spec.HostNetwork).Changed
	ok := s.State == observed.StateUnknown || changed || twin || newer || s.SandboxID != m.sandbox().ID ||
		s.Hash != podfacts.Hash(c) || m.liveness[k.ID.ID] == probe.Failure || m.startup[k.ID.ID] == probe.Failure || m.resizeRestarts(c)
	m.must(ok, "kill of %s for no reason", k.ID.ID)
}

func (m *model) resizeRestarts(c *v1.Container) bool {
	have := m.actuated[c.Name]
	return len(c.ResizePolicy) > 1 && amounts(&c.Resources, nil) != amounts(&have, nil)
}

// checkOver checks that a pod ends only if it must.
func (m *model) checkOver() {
	if m.pod.DeletionTimestamp != nil {
		return
	}
	for i := range m.pod.Spec.InitContainers {
		c := &m.pod.Spec.InitContainers[i]
		h := m.truth[c.Name]
		if s := m.status.Newest(c.Name); !h.done && h.starts > 0 && podfacts.EffectivePolicy(m.pod, c) == never && (s == nil || s.State != observed.StateRunning) {
			return // it failed, or its outcome is unavailable
		}
	}
	changed := m.status.SandboxChanged(m.pod.Spec.HostNetwork).Changed
	if m.pod.Spec.RestartPolicy == never && changed {
		return // it has run once
	}
	for i := range m.pod.Spec.Containers {
		c := &m.pod.Spec.Containers[i]
		h := m.truth[c.Name]
		stopped := podfacts.EffectivePolicy(m.pod, c) == never && slices.ContainsFunc(m.status.Containers, func(s observed.Container) bool {
			failed := m.liveness[s.ID.ID] == probe.Failure || m.startup[s.ID.ID] == probe.Failure
			return s.Name == c.Name && alive(&s) && (changed || failed || s.SandboxID != m.sandbox().ID)
		})
		m.must(stopped || h.starts > 0 && h.ended != nil && !owed(m.pod, c, h.ended), "the pod is over, but %s has not come to its end", c.Name)
	}
}

// stop carries out the steps before the sandbox. It reports whether to continue.
func (m *model) stop(a Actions) bool {
	if a.KillPod {
		if !m.killPod(a) {
			return false
		}
	} else {
		for _, k := range a.Kill {
			if !m.kill(k) {
				return false
			}
		}
		for i := range a.Reset {
			if !m.reset(a.Reset[i].ID) {
				return false
			}
		}
	}
	for _, c := range append(slices.Clone(a.Remove), a.PruneInit...) {
		s := m.find(c.ID)
		m.must(s != nil && !alive(s), "removal of %s, which runs", c.ID.ID)
		switch m.outcome() {
		case agentDies:
			m.remove(c.ID)
			return false
		case refused:
			return false
		}
		m.remove(c.ID)
	}
	return len(a.Reset) == 0
}

func (m *model) killPod(a Actions) bool {
	for i := range m.status.Containers {
		s := &m.status.Containers[i]
		if !alive(s) {
			continue
		}
		k := ContainerKill{ID: s.ID, Name: s.Name}
		if j := slices.IndexFunc(a.Kill, func(o ContainerKill) bool { return o.ID == s.ID }); j >= 0 {
			k = a.Kill[j]
		}
		if !m.kill(k) {
			return false
		}
	}
	for i := range m.status.Sandboxes {
		m.status.Sandboxes[i].State, m.status.Sandboxes[i].IPs = observed.SandboxNotReady, nil
	}
	return a.CreateSandbox
}

func (m *model) kill(k ContainerKill) bool {
	s := m.find(k.ID)
	o := m.outcome()
	if o == refused {
		return false
	}
	c := podfacts.Container(m.pod, s.Name)
	e := &ending{code: 137}
	if s.State == observed.StateUnknown || s.Hash != podfacts.Hash(c) || strings.Contains(k.Message, "resize") {
		e.replaced = true
	}
	m.ended(s, e)
	m.exit(s, 137, "Error")
	return o == done
}

func (m *model) reset(id observed.ContainerID) bool {
	o := m.outcome()
	if o == refused {
		return false
	}
	m.remove(id)
	m.resetting = false
	for _, c := range m.status.Containers {
		m.resetting = m.resetting || c.Name[0] != 'e'
	}
	for name, h := range m.truth { // containers without instances start from the beginning
		if name[0] != 'e' && m.status.Newest(name) == nil {
			*h = history{}
		}
	}
	return o == done
}

func (m *model) createSandbox(attempt uint32) bool {
	for i := range m.status.Containers {
		m.must(!alive(&m.status.Containers[i]), "a new sandbox while %s runs", m.status.Containers[i].ID.ID)
	}
	o := m.outcome()
	if o == refused {
		return false
	}
	id, at := m.make("sandbox")
	m.status.Sandboxes = slices.Insert(m.status.Sandboxes, 0, observed.Sandbox{
		ID: id, State: observed.SandboxReady, Attempt: attempt, CreatedAt: at, HostNetwork: m.pod.Spec.HostNetwork, HasNetworkStatus: true, IPs: []string{"10.0.0.2"},
	})
	for i := range m.pod.Spec.InitContainers {
		h := m.truth[m.pod.Spec.InitContainers[i].Name]
		*h = history{starts: h.starts}
	}
	return o == done
}

// startAll creates and starts containers. It reports whether to continue: a plain init container
// that fails to start blocks the rest.
func (m *model) startAll(list []string, indices []int) bool {
	for _, i := range indices {
		name := list[i]
		ok, dead := m.start(name)
		if dead || !ok && name[0] == 'i' {
			return false
		}
	}
	return true
}

func (m *model) start(name string) (ok, agentDead bool) {
	c := podfacts.Container(m.pod, name)
	m.checkStart(name)
	if o := m.outcome(); o == refused {
		return false, false
	}
	id, at := m.make(name)
	s := observed.Container{ID: observed.ContainerID{Runtime: "fake", ID: id}, Name: name, SandboxID: m.sandbox().ID, State: observed.StateCreated, CreatedAt: at, Hash: podfacts.Hash(c)}
	m.status.Containers = slices.Insert(m.status.Containers, 0, s)
	m.actuated[name] = c.Resources
	if o := m.outcome(); o != done {
		return false, o == agentDies
	}
	o := m.outcome()
	if o == refused {
		if m.dice.roll(2) == 1 { // some runtimes leave it in state created, others report it as exited
			m.exit(&m.status.Containers[0], 128, "StartError")
			m.ended(&m.status.Containers[0], &ending{code: 128})
			m.truth[name].starts++
		}
		return false, false
	}
	m.status.Containers[0].State = observed.StateRunning
	h := m.truth[name]
	h.starts++
	h.up = h.up || c.StartupProbe == nil
	return o == done, o == agentDies
}

// checkStart checks the preconditions of a creation.
func (m *model) checkStart(name string) {
	h := m.truth[name]
	for i := range m.status.Containers {
		s := &m.status.Containers[i]
		m.must(s.Name != name || !alive(s), "%s is started beside %s", name, s.ID.ID)
	}
	m.must(m.sandbox() != nil && m.sandbox().State == observed.SandboxReady, "%s is started in a dead sandbox", name)
	m.must(name[0] != 'i' || !h.done, "completed init container %s runs again", name)
	m.must(name[0] != 'e' || h.starts == 0, "ephemeral container %s runs again", name)
	m.must(permitted(m.pod, podfacts.Container(m.pod, name), h.ended), "%s runs again after %+v", name, h.ended)
	if name[0] == 'e' {
		return
	}
	m.must(!m.resetting, "%s is started before the restart of all has removed all", name)
	for i := range m.pod.Spec.InitContainers {
		before := m.pod.Spec.InitContainers[i].Name
		if before == name {
			return
		}
		m.must(m.truth[before].done || m.truth[before].up, "%s is started before %s is done", name, before)
	}
}
