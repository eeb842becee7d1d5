package pods

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
)

// refreshPeriod is the period at which a sync looks for containers that ended during its stops.
const refreshPeriod = time.Second

// stopping is the part of a sync that stops single containers. Meanwhile it starts the containers
// that do not depend on a stop.
type stopping struct {
	*podSync
	kill podKill
	// running has the number of stops in progress by container name, ends their outcomes.
	running map[string]int
	ends    chan stopEnd
	// killed are the containers that this sync stops. Their state stays as it was decided on: the
	// runtime's new state does not show the reason of the stop.
	killed map[string]bool
	// pending are the containers to start, in order.
	pending []podContainer
	// retryAt has the earliest next start of containers that failed to start.
	retryAt map[string]time.Time
	// acted is the end of the last start.
	acted time.Time
	// prepared is true if the sandbox is ready for starts, closed if no further container may start.
	prepared, closed bool
}

type stopEnd struct {
	name string
	err  error
}

// startsBesideStops reports whether containers may start while others stop. Resizes need the order
// of steps of a sync.
func (s *podSync) startsBesideStops() bool {
	a := &s.actions
	return len(a.Kill) > 0 && !a.KillPod && !a.CreateSandbox && len(a.Reset) == 0 && !a.Resizes()
}

// stopAndStart stops containers, and starts independent containers meanwhile.
func (s *podSync) stopAndStart(ctx context.Context) {
	if s.ended(ctx) {
		return
	}
	p := &stopping{
		podSync: s,
		kill:    podKill{identity: s.identity, pod: s.req.Pod, status: s.req.Status, own: s.actions.Kill, stops: newGate(maxPodStops, stopPlaceLimit)},
		running: map[string]int{}, ends: make(chan stopEnd), killed: map[string]bool{}, retryAt: map[string]time.Time{},
	}
	s.step("stopping containers")
	p.begin(ctx, s.actions.Kill)
	p.closed = !s.remove(ctx) || !s.pruneInit(ctx)
	p.queue(&s.actions)
	for p.startNext(ctx) || p.wait(ctx) {
	}
}

// begin starts the stops of containers in the background.
func (p *stopping) begin(ctx context.Context, kills []actions.ContainerKill) {
	for _, c := range kills {
		p.running[c.Name]++
		p.killed[c.Name] = true
		go func() {
			err := run.Guard("stopping container "+c.Name, func() error { return p.m.killContainer(ctx, p.kill, c) })
			p.ends <- stopEnd{c.Name, err}
		}()
	}
}

// queue adds the containers to start that are not queued yet.
func (p *stopping) queue(a *actions.Actions) {
	pod := p.req.Pod
	for _, list := range []struct {
		of      func(i int) podContainer
		indices []int
	}{
		{func(i int) podContainer { return ephemeralContainer(pod, i) }, a.StartEphemeral},
		{func(i int) podContainer { return initContainer(pod, i) }, a.StartInit},
		{func(i int) podContainer { return regularContainer(pod, i) }, a.StartRegular},
	} {
		for _, i := range list.indices {
			c := list.of(i)
			if !p.isPending(c.Name) && !time.Now().Before(p.retryAt[c.Name]) {
				p.pending = append(p.pending, c)
			}
		}
	}
}

func (p *stopping) isPending(name string) bool {
	return slices.ContainsFunc(p.pending, func(c podContainer) bool { return c.Name == name })
}

// startNext starts the first container that waits for no stop. It returns false
// without such a container.
func (p *stopping) startNext(ctx context.Context) bool {
	p.takeEnds()
	i := slices.IndexFunc(p.pending, p.ready)
	if i < 0 || p.closed || p.ended(ctx) {
		return false
	}
	if !p.prepared {
		p.prepared = p.prepareSandbox(ctx)
		p.closed = !p.prepared
		return p.prepared
	}
	c := p.pending[i]
	p.dropFailure(c.Name)
	up := p.startContainer(ctx, c)
	p.pending = slices.Delete(p.pending, i, i+1)
	p.acted = time.Now()
	if !up {
		p.noteFailure(c.Name)
		p.closed = p.closed || c.initialises()
	}
	return true
}

// takeEnds records the stops that have ended, without waiting.
func (p *stopping) takeEnds() {
	for len(p.running) > 0 {
		select {
		case end := <-p.ends:
			p.stopped(end)
		default:
			return
		}
	}
}

// ready reports whether a container depends on no stop in progress: its own, or its target's. A
// container that never ran keeps its place behind the init containers before it.
func (p *stopping) ready(c podContainer) bool {
	if p.running[c.Name] > 0 || c.inside != "" && p.running[c.inside] > 0 {
		return false
	}
	if c.kind == KindEphemeral || p.req.Status.Newest(c.Name) != nil {
		return true
	}
	return !slices.ContainsFunc(p.pending[:slices.IndexFunc(p.pending, func(e podContainer) bool { return e.Name == c.Name })],
		func(e podContainer) bool { return e.kind == KindInit })
}

// noteFailure records when a container that failed to start may be started again.
func (p *stopping) noteFailure(name string) {
	p.retryAt[name] = time.Now().Add(maxGraceSeconds * time.Second) // not in this sync
	for _, e := range p.result.Entries {
		var failure *StartError
		if e.Target == name && errors.As(e.Err, &failure) && !failure.notBefore.IsZero() {
			p.retryAt[name] = failure.notBefore
		}
	}
}

// dropFailure removes an earlier failed start from the result.
func (p *stopping) dropFailure(name string) {
	p.result.Entries = slices.DeleteFunc(p.result.Entries, func(e Entry) bool {
		var failure *StartError
		return e.Target == name && errors.As(e.Err, &failure)
	})
}

// wait waits for the end of a stop, or for newer state of the pod. It returns false if no stop is
// in progress.
func (p *stopping) wait(ctx context.Context) bool {
	if len(p.running) == 0 {
		return false
	}
	timer := time.NewTimer(refreshPeriod)
	defer timer.Stop()
	select {
	case end := <-p.ends:
		p.stopped(end)
	case <-timer.C:
		p.refresh(ctx)
	}
	return true
}

// stopped records the end of a stop.
func (p *stopping) stopped(end stopEnd) {
	if p.running[end.name]--; p.running[end.name] == 0 {
		delete(p.running, end.name)
	}
	p.result.add(ActionKillContainer, end.name, end.err)
	if end.err != nil {
		p.failed[end.name] = true
	}
}

// refresh decides again with newer state of the pod. It leaves all decisions but stops and starts
// of single containers to the next sync.
func (p *stopping) refresh(ctx context.Context) {
	if p.req.Newer == nil || p.closed || ctx.Err() != nil {
		return
	}
	status, probes := p.req.Newer()
	if status == nil || status.UID != p.req.Pod.UID || !status.ObservedAt.After(p.acted) {
		return
	}
	in := p.input()
	in.Status, in.Probes = p.besideKilled(status), probes
	in.RestartAll = p.req.RestartAll || actions.RestartAllTriggered(in.Pod, in.Status, nil)
	next, err := actions.Compute(in)
	if err != nil || next.KillPod || next.CreateSandbox || len(next.Reset)+len(next.Remove) > 0 || next.Resizes() || next.SandboxID != p.actions.SandboxID {
		return
	}
	p.req.Status, p.req.Probes = in.Status, probes
	next.Kill = slices.DeleteFunc(next.Kill, func(c actions.ContainerKill) bool { return p.killed[c.Name] })
	wasKilled := func(name func(int) string) func(int) bool { return func(i int) bool { return p.killed[name(i)] } }
	next.StartInit = slices.DeleteFunc(next.StartInit, wasKilled(func(i int) string { return in.Pod.Spec.InitContainers[i].Name }))
	next.StartRegular = slices.DeleteFunc(next.StartRegular, wasKilled(func(i int) string { return in.Pod.Spec.Containers[i].Name }))
	p.begin(ctx, next.Kill)
	p.queue(&next)
}

// besideKilled returns newer state of the pod, with the earlier state of the containers that this
// sync stops.
func (p *stopping) besideKilled(newer *observed.Pod) *observed.Pod {
	out := *newer
	out.Containers = nil
	for _, list := range []struct {
		of     []observed.Container
		killed bool
	}{{newer.Containers, false}, {p.req.Status.Containers, true}} {
		for i := range list.of {
			if p.killed[list.of[i].Name] == list.killed {
				out.Containers = append(out.Containers, list.of[i])
			}
		}
	}
	return &out
}
