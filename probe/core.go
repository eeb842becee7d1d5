package probe

import (
	"math"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// startedSlack is how long before the agent a container must have started to
// count as one that another agent looked after.
const startedSlack = 10 * time.Second

// reasonRestartingAll is the reason of containers that were removed because all
// containers of their pod start anew (KEP-5532).
const reasonRestartingAll = "RestartingAllContainers"

// rules are the numbers that one worker follows.
type rules struct {
	typ                 Type
	successes, failures int32
	delay               time.Duration
}

// progress is what one worker knows of its container. Its methods decide all
// that a worker does; they have no clock and no I/O.
type progress struct {
	// id is the instance that all the rest is about, "" before there is one.
	id string
	// stored is the result that counts: Unknown, Success or Failure.
	stored Verdict
	// run executions in a row had the outcome last.
	last Verdict
	run  int32
	// onHold: this instance is not probed any more, its result is final.
	onHold bool
	// tried: this instance was probed by this agent.
	tried bool
	// seen is when this instance was first seen running.
	seen time.Time
}

// look is what a round sees.
type look struct {
	pod       *v1.Pod
	container *v1.Container
	// status is the newest of the pod, nil when there is none.
	status *v1.PodStatus
	// leaving: the pod's termination has begun.
	leaving bool
	now     time.Time
	// agentStart is when the agent began.
	agentStart time.Time
}

// verb is what a worker does next.
type verb int8

const (
	wait verb = iota
	execute
	exit
)

// step is the outcome of a round.
type step struct {
	verb verb
	// why it waits or exits.
	why string
	// until is when the reason to wait ends by itself, zero if it does not.
	until time.Time
	// changed: the stored result is another, or the first of an instance.
	changed bool
	// older: the instance started before the agent.
	older bool
}

// Reasons to wait or to exit.
const (
	whyNoStatus    = "the pod has no status yet"
	whyNoContainer = "the container has not been created"
	whyNotRunning  = "the container does not run"
	whyDelay       = "the initial delay has not passed"
	whyNotStarted  = "the startup probe has not succeeded"
	whyPassed      = "the container has started"
	whyGaveUp      = "the container failed and is to be restarted"
	whyEnded       = "the container has ended and does not run again"
	whyFinal       = "the pod has ended"
	whyLeaving     = "the pod is being terminated"
	whyOccupied    = "an execution from before the pod was removed has not returned"
	whyBeforeRun   = "it waits for Run"
)

// round decides what to do now.
func (p *progress) round(r rules, in look) step {
	switch {
	case in.leaving && r.typ != Readiness:
		// Nobody may restart what is to stop.
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

// adopt begins anew with another instance.
func (p *progress) adopt(r rules, c *v1.ContainerStatus, agentStart time.Time) (changed bool) {
	if p.id == c.ContainerID {
		return false
	}
	*p = progress{id: c.ContainerID}
	if run := c.State.Running; run != nil && run.StartedAt.Add(startedSlack).Before(agentStart) {
		// It ran under an earlier agent, whose results are not known: what the
		// status says of it stays until there is one.
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

// stopped is a round of a container that does not run. Liveness and startup keep
// their results: a Failure would end an instance of which the runtime only did
// not know for a moment that it runs, or that is about to run.
func (p *progress) stopped(r rules, c *v1.ContainerStatus, in look, changed bool) step {
	if ended := c.State.Terminated; ended != nil && !runsAgain(in, ended) {
		return p.exit(whyEnded)
	}
	if r.typ == Readiness {
		changed = changed || p.stored != Failure
		p.stored, p.run = Failure, 0
	}
	return step{why: whyNotRunning, changed: changed}
}

// runsAgain tells whether a container that has ended has a successor.
func runsAgain(in look, ended *v1.ContainerStateTerminated) bool {
	return !in.leaving && (podfacts.MayRestart(in.pod, in.container, ended.ExitCode) || ended.Reason == reasonRestartingAll ||
		podfacts.ConditionTrue(in.status.Conditions, v1.AllContainersRestarting))
}

// running is a round of a container that runs.
func (p *progress) running(r rules, c *v1.ContainerStatus, in look) step {
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
		// It passed under an earlier agent. Without a result, what waits for this
		// container, such as the ones after a sidecar, would wait for ever.
		p.stored, p.onHold = Success, true
		return step{why: whyPassed, changed: true}
	case in.now.Before(begins):
		return step{why: whyDelay, until: begins}
	case r.typ != Startup && !started:
		return step{why: whyNotStarted}
	}
	return step{verb: execute}
}

// exit forgets the result: nothing may follow from it any more.
func (p *progress) exit(why string) step {
	p.stored, p.run, p.onHold = Unknown, 0, false
	return step{verb: exit, why: why}
}

// outcome takes in what an execution found and tells whether the stored result
// has changed.
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

// counted is what an outcome counts as: Success or Failure.
func (v Verdict) counted() Verdict {
	if v == Success || v == Warning {
		return Success
	}
	return Failure
}

// containerStatus finds a regular container or a sidecar.
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
