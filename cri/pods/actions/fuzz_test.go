package actions

import (
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

// FuzzConverges applies random events to a pod and then none: the pod must settle within a
// bounded number of steps. Meanwhile it must never have two running instances of a container,
// start a regular container before the pod is initialised, repeat a completed init container in
// its sandbox, restart a container against its policy, or stop a container without a reason.
func FuzzConverges(f *testing.F) {
	f.Add([]byte{})
	for seed := range uint64(500) {
		f.Add(randomBytes(seed, 400))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { live(t, bytes) })
}

func randomBytes(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.UintN(256))
	}
	return out
}

func live(t *testing.T, bytes []byte) {
	d := &dice{bytes}
	m := newModel(t, randomPod(d), d.bytes)
	for steps := 0; len(m.dice.bytes) > 0 && steps < 200; steps++ {
		m.apply(m.compute())
		for range m.dice.roll(4) {
			m.happen()
		}
	}
	m.dice.bytes = nil
	m.settle()
}

// settle applies only favourable events from now on.
func (m *model) settle() {
	bound := 12 + 6*len(m.truth)
	for range bound {
		a := m.compute()
		idle := !a.KillPod && !a.Starts() && !a.Resizes() && len(a.Kill)+len(a.Remove)+len(a.Reset)+len(a.PruneInit) == 0
		m.apply(a)
		if a.Over() {
			m.must(m.compute().Over(), "a pod that was over comes back")
			return
		}
		if progress := m.goWell(); idle && !progress {
			m.checkSettled()
			return
		}
	}
	m.must(false, "not settled after %d steps", bound)
}

// goWell lets init containers and probes succeed, and ends the containers that are not to run
// forever. It reports whether it changed any state.
func (m *model) goWell() bool {
	progress := false
	for i := range m.status.Containers {
		s := &m.status.Containers[i]
		if s.State != observed.StateRunning || s.Name[0] == 'e' {
			continue
		}
		if m.startup[s.ID.ID] != probe.Success || m.liveness[s.ID.ID] == probe.Failure {
			m.startup[s.ID.ID], m.liveness[s.ID.ID] = probe.Success, probe.Success
			m.truth[s.Name].up = m.truth[s.Name].up || s.Name[0] == 's' && s.SandboxID == m.sandbox().ID
			progress = true
		}
		if c := podfacts.Container(m.pod, s.Name); s.Name[0] == 'i' || s.Name[0] != 's' && !owed(m.pod, c, &ending{}) {
			m.ended(s, &ending{})
			m.exit(s, 0, "Completed")
			progress = true
		}
	}
	return progress
}

// checkSettled checks that a settled pod is complete.
func (m *model) checkSettled() {
	m.checkTidy()
	if m.pod.DeletionTimestamp != nil {
		return
	}
	running := 0
	for i := range m.pod.Spec.Containers {
		c := &m.pod.Spec.Containers[i]
		h := m.truth[c.Name]
		up := m.runs(c.Name)
		if up {
			running++
		}
		m.must(up || h.starts > 0 && h.ended != nil && !owed(m.pod, c, h.ended), "settled, but %s does not run", c.Name)
	}
	m.must(running > 0, "settled with nothing running, and not over")
	for i := range m.pod.Spec.InitContainers {
		name := m.pod.Spec.InitContainers[i].Name
		m.must(name[0] == 'i' && m.truth[name].done || m.runs(name), "settled, but %s does not run", name)
	}
}

// runs reports whether a container is running. checkTidy checks that it is in the current
// sandbox.
func (m *model) runs(name string) bool {
	return slices.ContainsFunc(m.status.Containers, func(s observed.Container) bool {
		return s.Name == name && s.State == observed.StateRunning
	})
}

// checkTidy checks that no leftovers exist.
func (m *model) checkTidy() {
	seen := map[string]bool{}
	for i := range m.status.Containers {
		s := &m.status.Containers[i]
		if s.Name[0] == 'e' {
			continue
		}
		m.must(s.State != observed.StateCreated, "%s is left over", s.ID.ID)
		if alive(s) {
			m.must(!seen[s.Name], "two instances of %s run", s.Name)
			m.must(s.SandboxID == m.sandbox().ID, "%s runs in an old sandbox", s.ID.ID)
			seen[s.Name] = true
		}
	}
}

// happen applies a random external event.
func (m *model) happen() {
	switch m.dice.roll(17) {
	case 0, 1, 2, 3, 4:
		m.randomExit()
	case 5, 6, 7:
		m.randomProbe()
	case 8:
		m.edit()
	case 9:
		m.reboot()
	case 10:
		m.loseInit()
	case 11:
		m.agentRestarts()
		m.collectGarbage()
	case 12:
		m.turnUnknown()
	case 13:
		m.hurtSandbox()
	case 14:
		if m.dice.chance(16) {
			m.pod.DeletionTimestamp = &metav1.Time{}
		}
	case 15:
		m.resize()
	case 16:
		m.twins()
	}
}

// twins simulates a second agent that starts a container that is already running.
func (m *model) twins() {
	s := m.pick(observed.StateRunning)
	if s == nil || s.Name[0] == 'i' || s.Name[0] == 'e' || m.resetting {
		return
	}
	twin := *s
	twin.ID.ID, twin.CreatedAt = m.make(s.Name)
	m.status.Containers = slices.Insert(m.status.Containers, 0, twin)
}

// pick returns a random instance in a state, or nil.
func (m *model) pick(state observed.State) *observed.Container {
	var all []*observed.Container
	for i := range m.status.Containers {
		if m.status.Containers[i].State == state {
			all = append(all, &m.status.Containers[i])
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[m.dice.roll(len(all))]
}

func (m *model) randomExit() {
	s := m.pick(observed.StateRunning)
	if s == nil {
		return
	}
	code := []int32{0, 0, 1, 42, 137}[m.dice.roll(5)]
	reason := []string{"Error", "Error", "OOMKilled"}[m.dice.roll(3)]
	m.ended(s, &ending{code: code, oom: reason == "OOMKilled"})
	m.exit(s, code, reason)
}

func (m *model) randomProbe() {
	s := m.pick(observed.StateRunning)
	if s == nil || s.Name[0] == 'i' || s.Name[0] == 'e' {
		return
	}
	result := []probe.Verdict{probe.Unknown, probe.Success, probe.Failure}[m.dice.roll(3)]
	if c := podfacts.Container(m.pod, s.Name); c.StartupProbe == nil || m.startup[s.ID.ID] == probe.Success {
		m.liveness[s.ID.ID] = result
		return
	}
	m.startup[s.ID.ID] = result
	m.truth[s.Name].up = m.truth[s.Name].up || result == probe.Success && s.SandboxID == m.sandbox().ID
}

// edit changes an image or the network of the pod.
func (m *model) edit() {
	if m.dice.chance(6) {
		m.pod.Spec.HostNetwork = !m.pod.Spec.HostNetwork
		return
	}
	if c := m.anySpec(); c != nil {
		c.Image += "2"
	}
}

func (m *model) resize() {
	if c := m.anySpec(); c != nil && c.Name[0] != 'i' {
		c.Resources = res([]string{"1", "2", "3"}[m.dice.roll(3)])
	}
}

func (m *model) anySpec() *v1.Container {
	list := m.pod.Spec.Containers
	if n := len(m.pod.Spec.InitContainers); n > 0 && m.dice.roll(2) == 1 {
		list = m.pod.Spec.InitContainers
	}
	return &list[m.dice.roll(len(list))]
}

// reboot ends all containers. The runtime reports exit code 255 for exits that it did not
// observe.
func (m *model) reboot() {
	for i := range m.status.Containers {
		if s := &m.status.Containers[i]; alive(s) {
			m.ended(s, &ending{code: 255})
			m.exit(s, 255, "Unknown")
		}
	}
	for i := range m.status.Sandboxes {
		m.status.Sandboxes[i].State, m.status.Sandboxes[i].IPs = observed.SandboxNotReady, nil
	}
	m.agentRestarts()
}

// collectGarbage keeps the newest exited instance of each container, and sandboxes that have
// containers.
func (m *model) collectGarbage() {
	seen, holds := map[string]bool{}, map[string]bool{}
	m.status.Containers = slices.DeleteFunc(m.status.Containers, func(c observed.Container) bool {
		old := c.State == observed.StateExited && seen[c.Name]
		seen[c.Name] = seen[c.Name] || c.State == observed.StateExited
		holds[c.SandboxID] = holds[c.SandboxID] || !old
		return old
	})
	newest := m.sandbox()
	if newest == nil {
		return
	}
	id := newest.ID
	m.status.Sandboxes = slices.DeleteFunc(m.status.Sandboxes, func(s observed.Sandbox) bool { return s.ID != id && !holds[s.ID] })
}

// loseInit removes an exited init container or sidecar, if a later container still proves that it
// ran.
func (m *model) loseInit() {
	s := m.pick(observed.StateExited)
	if s == nil || s.Name[0] != 's' && s.Name[0] != 'i' || podfacts.RestartsAll(podfacts.Container(m.pod, s.Name), s.ExitCode) {
		return
	}
	if s.SandboxID != m.sandbox().ID || m.proved(s.Name) {
		m.remove(s.ID)
	}
}

// proved reports whether a later container was started in this sandbox and still exists.
func (m *model) proved(name string) bool {
	after := false
	for _, c := range append(containerNames(m.pod.Spec.InitContainers), containerNames(m.pod.Spec.Containers)...) {
		for i := range m.status.Containers {
			s := &m.status.Containers[i]
			if after && s.Name == c && s.SandboxID == m.sandbox().ID && s.State != observed.StateCreated {
				return true
			}
		}
		after = after || c == name
	}
	return false
}

// turnUnknown simulates a runtime that loses the state of a container.
func (m *model) turnUnknown() {
	if s := m.pick(observed.StateRunning); s != nil && s.Name[0] != 'e' {
		s.State = observed.StateUnknown
	}
}

// hurtSandbox removes the sandbox's address, and possibly stops the sandbox but not its
// containers.
func (m *model) hurtSandbox() {
	if m.sandbox() == nil {
		return
	}
	m.sandbox().IPs = nil
	if m.dice.roll(2) == 1 {
		m.sandbox().State = observed.SandboxNotReady
	}
}
