package actions

import (
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

// reasonOOMKilled is the runtime's reason for a container of which a process was
// killed for want of memory, even if its first process then exits with 0.
const reasonOOMKilled = "OOMKilled"

// initPass is the walk over the init containers, from the last to the first:
// the last one that left a trace tells how far the pod has come, and those before
// it have had their turn, whether or not the runtime still remembers them (#86531,
// #62362).
type initPass struct {
	*decision
	// initialised tells that regular containers may run.
	initialised bool
	// before is when a regular container was last created in this sandbox. The
	// pod was initialised then: what init containers did holds, even if nothing
	// runs now. Zero when never.
	before time.Time
	// passed tells that a later container has had its turn, and so this one.
	passed bool
}

// initContainers decides about init containers and sidecars. It tells whether
// regular containers may run, and whether they did before in this sandbox.
func (d *decision) initContainers() (initialised, before bool) {
	p := initPass{decision: d}
	ran := p.regularTraces()
	specs := d.in.Pod.Spec.InitContainers
	p.passed = ran
	p.initialised = p.initialised || len(specs) == 0
	for i := len(specs) - 1; i >= 0 && !d.out.KillPod; i-- {
		p.visit(i)
	}
	if !p.passed && !p.initialised {
		p.start(0)
	}
	slices.Reverse(d.out.StartInit)
	if !p.initialised && len(d.out.StartInit) > 0 {
		d.explain("init container " + specs[d.out.StartInit[0]].Name + " runs first")
	}
	return p.initialised, ran
}

// regularTraces looks for regular containers in the current sandbox. They prove
// that the pod was initialised in it; while one is created or runs, the pod still
// is. Where the sandbox is unknown an exited one proves nothing: after a reboot
// all have exited (#120247).
func (p *initPass) regularTraces() (ran bool) {
	for i := range p.in.Status.Containers {
		s := &p.in.Status.Containers[i]
		if !p.here(s) || podfacts.Regular(p.in.Pod, s.Name) == nil {
			continue
		}
		alive := s.State == observed.StateCreated || s.State == observed.StateRunning
		if !alive && s.SandboxID == "" {
			continue
		}
		ran = true
		p.initialised = p.initialised || alive
		if s.CreatedAt.After(p.before) {
			p.before = s.CreatedAt
		}
	}
	return ran
}

// visit decides about one init container.
func (p *initPass) visit(i int) {
	c := &p.in.Pod.Spec.InitContainers[i]
	current := p.currentHere(c.Name)
	p.sweep(c.Name, current)
	p.prune(c.Name)
	last, sidecar := i == len(p.in.Pod.Spec.InitContainers)-1, podfacts.IsSidecar(c)
	switch {
	case sidecar && (current != nil || p.passed):
		p.sidecar(i, current, last)
	case p.passed:
		// It has succeeded once in this sandbox, and that is enough: what came after the
		// last one were regular containers.
		p.initialised = p.initialised || last
	case current != nil:
		p.plain(i, current, last)
	}
	p.passed = p.passed || current != nil
}

// plain decides about an init container that runs to its end, of which no later
// one has had its turn.
func (p *initPass) plain(i int, current *observed.Container, last bool) {
	c := &p.in.Pod.Spec.InitContainers[i]
	switch current.State {
	case observed.StateCreated: // #126543, #127162
		p.out.Remove = append(p.out.Remove, *current)
		p.start(i)
	case observed.StateRunning:
		if restart := p.resize(c, target{current: current, init: true, index: i}); restart {
			p.start(i)
		}
		p.explain("init container " + c.Name + " is running")
	case observed.StateExited:
		p.exited(i, current, last)
	default:
		p.unknown(i, current)
	}
}

// exited decides about a plain init container that has come to its end.
func (p *initPass) exited(i int, current *observed.Container, last bool) {
	c := &p.in.Pod.Spec.InitContainers[i]
	failed := hasFailed(current)
	switch {
	case !failed && last:
		p.initialised = true
	case !failed:
		p.start(i + 1)
	case !p.deleted && p.mayRetry(c, current.ExitCode):
		p.start(i)
	default:
		p.end("init container " + c.Name + " failed with exit code " + strconv.Itoa(int(current.ExitCode)) + " and does not restart")
	}
}

// hasFailed tells whether an init container that exited did not do its work: a
// process of it that was killed may have been the one that mattered (#116676).
func hasFailed(s *observed.Container) bool {
	return s.ExitCode != 0 || s.Reason == reasonOOMKilled
}

// mayRetry tells whether a failed init container may run again. That it failed is
// decided, whatever its exit code looks like.
func (d *decision) mayRetry(c *v1.Container, exitCode int32) bool {
	return podfacts.MatchingRule(c, exitCode) != nil || podfacts.EffectivePolicy(d.in.Pod, c) != v1.RestartPolicyNever
}

// unknown decides about a plain init container of which the runtime does not know
// the state: it may have done its work, or half of it.
func (p *initPass) unknown(i int, current *observed.Container) {
	c := &p.in.Pod.Spec.InitContainers[i]
	again := podfacts.EffectivePolicy(p.in.Pod, c) != v1.RestartPolicyNever
	if !again && !hasRules(c) {
		p.end("init container " + c.Name + " is in unknown state and does not restart")
		return
	}
	if !again {
		p.kill(current, "", "Init container "+c.Name+" is in unknown state", false)
		p.explain("the exit code of init container " + c.Name + " decides whether it restarts")
		return
	}
	p.kill(current, "", "Init container "+c.Name+" is in unknown state, it is stopped before it is restarted", false)
	p.start(i)
}

// sidecar decides about a restartable init container (KEP-753) whose turn it is
// or was.
func (p *initPass) sidecar(i int, current *observed.Container, last bool) {
	switch {
	case current == nil:
	case current.State == observed.StateRunning:
		p.sidecarRuns(i, current, last)
		return
	case current.State == observed.StateCreated:
		p.out.Remove = append(p.out.Remove, *current)
	case current.State == observed.StateUnknown:
		p.kill(current, "", "Init container "+current.Name+" is in unknown state, it is stopped before it is restarted", false)
	}
	p.start(i)
}

func (p *initPass) sidecarRuns(i int, current *observed.Container, last bool) {
	c := &p.in.Pod.Spec.InitContainers[i]
	if c.StartupProbe != nil && p.probed(current, probe.Startup) == probe.Failure {
		p.kill(current, KillStartupProbe, "Init container "+c.Name+" failed startup probe", !p.deleted)
		p.start(i)
		return
	}
	switch {
	case !p.started(c, current):
		if !p.passed || last && !p.initialised {
			p.explain("init container " + c.Name + " runs, its startup probe has not succeeded yet")
		}
		return
	case last:
		p.initialised = true
	case !p.passed:
		p.start(i + 1)
	}
	switch {
	case current.Hash != 0 && current.Hash != podfacts.Hash(c):
		p.kill(current, "", "Init container "+c.Name+" definition changed", !p.deleted)
		p.start(i)
	case p.probed(current, probe.Liveness) == probe.Failure:
		p.kill(current, KillLivenessProbe, "Init container "+c.Name+" failed liveness probe", !p.deleted)
		p.start(i)
	case p.resize(c, target{current: current, init: true, index: i}):
		p.start(i)
	}
}

// started tells whether a running sidecar whose startup probe has not failed has
// started, so that others may follow.
// Without a result, as after a restart of the agent, it has if a regular container
// was created after it: that would have waited (#136910, #137146).
func (p *initPass) started(c *v1.Container, current *observed.Container) bool {
	if c.StartupProbe == nil {
		return true
	}
	if p.probed(current, probe.Startup) == probe.Success {
		return true
	}
	return !current.CreatedAt.IsZero() && current.CreatedAt.Before(p.before)
}

// start adds an init container to those to start; in a pod that is being deleted
// none is. The walk goes backwards: the list is turned around at its end.
func (p *initPass) start(i int) {
	if !p.deleted {
		p.out.StartInit = append(p.out.StartInit, i)
	}
}
