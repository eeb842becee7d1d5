package probe

import (
	"math"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// startedSlack is the minimum time by which a container must have started before this agent to
// count as a container of an earlier agent.
const startedSlack = 10 * time.Second

// reasonRestartingAll is the reason of containers that were removed because all containers of
// their pod restart (KEP-5532).
const reasonRestartingAll = "RestartingAllContainers"

// rules are the thresholds and the initial delay of one probe.
type rules struct {
	typ                 Type
	successes, failures int32
	delay               time.Duration
}

// progress is the state of one probe. Its methods make all decisions of a worker, without a clock
// and I/O.
type progress struct {
	// id is the instance that the other fields describe, or "" without one.
	id string
	// stored is the effective result: Unknown, Success or Failure.
	stored Verdict
	// run counts the executions in a row with the outcome last.
	last Verdict
	run  int32
	// onHold is true if the result of this instance is final and its probe has ended.
	onHold bool
	tried  bool
	// seen is the time of the first round that saw this instance running.
	seen time.Time
}

type roundInput struct {
	pod        *v1.Pod
	container  *v1.Container
	status     *v1.PodStatus
	leaving    bool
	now        time.Time
	agentStart time.Time
}

// verb is the next action of a worker.
type verb int8

const (
	wait verb = iota
	execute
	exit
)

type step struct {
	verb verb
	// why is the reason to wait or exit.
	why string
	// until is the end of the reason to wait. Zero: the end depends on the status.
	until time.Time
	// changed is true if the stored result changed or is the first of its instance.
	changed bool
	// older is true if the instance started before the agent.
	older bool
}

const (
	whyNoStatus    = "the pod has no status yet"
	whyNoContainer = "the container has not been created"
	whyNotRunning  = "the container does not run"
	whyDelay       = "the initial delay has not passed"
	whyNotStarted  = "the startup probe has not succeeded"
	whyPassed      = "the container has started"
	whyGaveUp      = "the container failed and will be restarted"
	whyEnded       = "the container has ended and will not be restarted"
	whyFinal       = "the pod has ended"
	whyLeaving     = "the pod is being terminated"
	whyOccupied    = "an execution for the removed pod has not returned"
	whyBeforeRun   = "it waits for Run"
)

func (p *progress) round(r rules, in roundInput) step {
	switch {
	case in.leaving && r.typ != Readiness:
		// These results could restart a container that should stop.
		return p.exit(whyLeaving)
	case in.status == nil:
		return step{why: whyNoStatus}
	case podfacts.IsTerminalPhase(in.status.Phase):
		return p.exit(whyFinal)
	}
	c := containerStatus(in.status, in.container.Name)
	if c == nil || c.ContainerID == "" {
		return step{why: whyNoContainer}
	}
	changed := p.adopt(r, c, in.agentStart)
	if c.State.Running == nil {
		return p.stopped(r, c, in, changed)
	}
	s := p.running(r, c, in)
	s.changed = s.changed || changed
	s.older = c.State.Running.StartedAt.Time.Before(in.agentStart)
	return s
}

func (p *progress) adopt(r rules, c *v1.ContainerStatus, agentStart time.Time) (changed bool) {
	if p.id == c.ContainerID {
		return false
	}
	*p = progress{id: c.ContainerID}
	if run := c.State.Running; run != nil && run.StartedAt.Add(startedSlack).Before(agentStart) {
		// An earlier agent probed this instance, and its results are lost. The status keeps its
		// values until this agent has a result.
		return false
	}
	switch r.typ {
	case Liveness:
		p.stored = Success
	case Readiness:
		p.stored = Failure
	case Startup:
	}
	return p.stored != Unknown
}

// stopped handles a container that does not run. Liveness and startup keep their results: a
// Failure would end an instance that is about to run, or that the runtime failed to list once.
func (p *progress) stopped(r rules, c *v1.ContainerStatus, in roundInput, changed bool) step {
	if ended := c.State.Terminated; ended != nil && !runsAgain(in, ended) {
		return p.exit(whyEnded)
	}
	if r.typ == Readiness {
		changed = changed || p.stored != Failure
		p.stored, p.run = Failure, 0
	}
	return step{why: whyNotRunning, changed: changed}
}

// runsAgain reports whether an ended container restarts.
func runsAgain(in roundInput, ended *v1.ContainerStateTerminated) bool {
	return !in.leaving && (podfacts.MayRestart(in.pod, in.container, ended.ExitCode) || ended.Reason == reasonRestartingAll ||
		podfacts.ConditionTrue(in.status.Conditions, v1.AllContainersRestarting))
}

func (p *progress) running(r rules, c *v1.ContainerStatus, in roundInput) step {
	started := c.Started != nil && *c.Started
	if p.seen.IsZero() {
		p.seen = in.now
	}
	begins := p.seen.Add(r.delay)
	if at := c.State.Running.StartedAt.Add(r.delay); at.Before(begins) {
		begins = at
	}
	switch {
	case p.onHold && p.stored == Success:
		return step{why: whyPassed}
	case p.onHold:
		return step{why: whyGaveUp}
	case r.typ == Startup && started:
		// The probe passed under an earlier agent. Without a result, containers that wait for
		// this one, such as the containers after a sidecar, would wait forever.
		p.stored, p.onHold = Success, true
		return step{why: whyPassed, changed: true}
	case in.now.Before(begins):
		return step{why: whyDelay, until: begins}
	case r.typ != Startup && !started:
		return step{why: whyNotStarted}
	}
	return step{verb: execute}
}

// exit discards the result, so that it has no further effect.
func (p *progress) exit(why string) step {
	p.stored, p.run, p.onHold = Unknown, 0, false
	return step{verb: exit, why: why}
}

func (p *progress) outcome(r rules, v Verdict) (changed bool) {
	threshold := r.failures
	if v = v.counted(); v == Success {
		threshold = r.successes
	}
	if v != p.last {
		p.last, p.run = v, 0
	}
	if p.run < math.MaxInt32 {
		p.run++
	}
	if p.run < threshold {
		return false
	}
	if r.typ == Startup || r.typ == Liveness && v == Failure {
		p.onHold, p.run = true, 0
	}
	changed = p.stored != v
	p.stored = v
	return changed
}

// counted maps an outcome to Success or Failure.
func (v Verdict) counted() Verdict {
	if v == Success || v == Warning {
		return Success
	}
	return Failure
}

// containerStatus returns the status of a regular container or a sidecar.
func containerStatus(s *v1.PodStatus, name string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
