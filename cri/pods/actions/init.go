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

// reasonOOMKilled is the runtime's reason for a container with an OOM-killed process, even if its
// first process then exits with 0.
const reasonOOMKilled = "OOMKilled"

// initPass visits the init containers from the last to the first. The last container with an
// instance determines the progress of the pod. All before it have run, even if their instances no
// longer exist (#86531, #62362).
type initPass struct {
	*decision
	// initialised is true if regular containers may run.
	initialised bool
	// before is the creation time of the newest regular container in this sandbox, or zero. The
	// pod was initialised then, and still is, even if no container runs now.
	before time.Time
	// passed is true if a later container has run, which implies that this one has, too.
	passed bool
}

// initContainers decides for init containers and sidecars. It reports whether regular containers
// may run, and whether any ran before in this sandbox.
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

// regularTraces looks for regular containers in the current sandbox. They prove that the pod was
// initialised in it; while one is created or running, it still is. An exited one without a
// sandbox ID is no proof: after a reboot all have exited (#120247).
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
		// It has succeeded once in this sandbox. Regular containers follow the last init
		// container.
		p.initialised = p.initialised || last
	case current != nil:
		p.plain(i, current, last)
	}
	p.passed = p.passed || current != nil
}

// plain decides for a plain init container, if no later one has run.
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

// exited decides for an exited plain init container.
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

// hasFailed reports whether an exited init container has failed. An OOM kill is a failure even
// with exit code 0, because it may have killed the main process (#116676).
func hasFailed(s *observed.Container) bool {
	return s.ExitCode != 0 || s.Reason == reasonOOMKilled
}

// mayRetry reports whether a failed init container may run again. It does not compare the exit
// code with 0: after an OOM kill a 0 is a failure.
func (d *decision) mayRetry(c *v1.Container, exitCode int32) bool {
	return podfacts.MatchingRule(c, exitCode) != nil || podfacts.EffectivePolicy(d.in.Pod, c) != v1.RestartPolicyNever
}

// unknown decides for a plain init container in unknown state: it may or may not have completed.
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

// sidecar decides for a restartable init container (KEP-753) that is due or has already run.
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

// started reports whether a running sidecar whose startup probe has not failed has started, so
// that later containers may follow. Without a probe result, as after a restart of the agent, it
// has started if a regular container was created after it (#136910, #137146).
func (p *initPass) started(c *v1.Container, current *observed.Container) bool {
	if c.StartupProbe == nil {
		return true
	}
	if p.probed(current, probe.Startup) == probe.Success {
		return true
	}
	return !current.CreatedAt.IsZero() && current.CreatedAt.Before(p.before)
}

// start adds an init container to the list to start, unless the pod is being deleted. The pass
// goes backwards, so the caller reverses the list.
func (p *initPass) start(i int) {
	if !p.deleted {
		p.out.StartInit = append(p.out.StartInit, i)
	}
}
