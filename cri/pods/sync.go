package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

// SyncRequest asks for a pod to be brought closer to its spec.
type SyncRequest struct {
	// Pod is the desired pod, with the resources that the node has allocated to
	// it. It is not changed.
	Pod *v1.Pod
	// Status is what the runtime has of the pod, observed after the last call
	// that changed it. One of another pod, as their UIDs tell, is refused.
	Status *observed.Pod
	// Probes are the results of the pod's probes (probe.Manager.Results); a missing
	// one is unknown. A sidecar with a startup probe has started once that has
	// succeeded, also after a restart of the agent: what was published of it counts
	// until the probe has run again.
	Probes probe.Results
	// RestartAll restarts all containers of the pod in their sandbox (KEP-5532).
	// It is needed only for what the runtime does not show any more: a rule that
	// matches the end of a container which is still there is found anyway.
	RestartAll bool
	// OnStep is told what the sync is at, for people who ask why a pod is not
	// up yet; may be nil. It is called one at a time.
	OnStep func(step string)
	// OnSandboxReady is told the addresses of a new sandbox before anything is
	// pulled; may be nil. It must not block.
	OnSandboxReady func(ips []string)
}

// SyncPod does what actions.Compute asks for, in order: stop, clear away, sandbox,
// ephemeral containers, init containers, resizes, regular containers. A plain init
// container that does not start ends the sync. All others do not depend on each
// other: one that fails does not keep the next from starting. It returns soon
// after ctx ends: pulls, hooks and waits end with it, and no further runtime call
// is made.
func (m *Manager) SyncPod(ctx context.Context, r SyncRequest) Result {
	if r.Pod == nil || r.Status == nil {
		return Result{stopped: errors.New("pods: SyncRequest.Pod and SyncRequest.Status are required")}
	}
	if err := checkIdentity(r.Pod, r.Status); err != nil {
		return Result{stopped: fmt.Errorf("pods: SyncRequest: %w", err)}
	}
	s := &podSync{m: m, req: r, identity: identityOf(r.Pod), failed: map[string]bool{}, volumes: imageVolumes{}}
	s.result.Pod = s.identity.String()
	var err error
	if s.record, err = resize.Load(m.cfg.Actuated, r.Pod.UID); err != nil {
		s.result.stopped = err
		return s.result
	}
	if s.actions, err = actions.Compute(s.input()); err != nil {
		s.result.stopped = err
		return s.result
	}
	s.result.over, s.result.explanation = s.actions.Over(), s.actions.Explanation
	m.log.Debug("sync", "pod", s.identity, "actions", s.actions)
	s.run(ctx)
	s.countUsers()
	return s.result
}

// countUsers tells of a sandbox with users of its own: what the runtime cannot give them often
// shows with the first container only.
func (s *podSync) countUsers() {
	own := s.req.Pod.Spec.HostUsers != nil && !*s.req.Pod.Spec.HostUsers
	tried := func(e Entry) bool { return e.Action == ActionConfigPodSandbox || e.Action == ActionCreatePodSandbox }
	if own && slices.ContainsFunc(s.result.Entries, tried) {
		s.m.cfg.Metrics.OnUsersStart(s.result.Err())
	}
}

// podSync is one call of SyncPod.
type podSync struct {
	m        *Manager
	req      SyncRequest
	identity podIdentity
	actions  actions.Actions
	result   Result

	sandbox runningSandbox
	// failed names the containers whose predecessor is still in the way.
	failed map[string]bool
	// started counts the containers that this sync has started.
	started int
	volumes imageVolumes
	// record is what the runtime was last told of resources.
	record *resize.Record
}

// input is what the actions follow from. The end that triggers a restart of all
// containers is taken away last, so that what the runtime has of it is enough.
func (s *podSync) input() actions.Input {
	return actions.Input{
		Pod: s.req.Pod, Status: s.req.Status, Probes: s.req.Probes, Actuated: s.record.Actuated(),
		RestartAll: s.req.RestartAll || actions.RestartAllTriggered(s.req.Pod, s.req.Status, nil),
	}
}

func (s *podSync) run(ctx context.Context) {
	s.repairLinks()
	if !s.stop(ctx) || !s.reset(ctx) || !s.remove(ctx) || !s.pruneInit(ctx) {
		return
	}
	if s.actions.Starts() && !s.prepareSandbox(ctx) {
		return
	}
	if !s.startAll(ctx, ephemeralContainer, s.actions.StartEphemeral) || !s.startAll(ctx, initContainer, s.actions.StartInit) {
		return
	}
	s.resize(ctx)
	s.startAll(ctx, regularContainer, s.actions.StartRegular)
}

// repairLinks makes links to logs that are missing.
func (s *podSync) repairLinks() {
	for _, c := range s.req.Status.Running() {
		if err := s.m.files.RepairLink(s.identity.Pod, c.Name, c.ID.ID, c.LogPath); err != nil {
			s.m.log.Warn("cannot link to the log of a container", "pod", s.identity, "container", c.Name, "err", err)
		}
	}
}

// startAll starts containers one after the other. It tells whether to go on.
func (s *podSync) startAll(ctx context.Context, of func(*v1.Pod, int) podContainer, indices []int) bool {
	for _, i := range indices {
		if s.ended(ctx) {
			return false
		}
		c := of(s.req.Pod, i)
		if !s.startContainer(ctx, c) && c.initialises() {
			return false
		}
	}
	return true
}

// ended tells whether ctx has ended, and makes that part of the result.
func (s *podSync) ended(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	if s.result.stopped == nil {
		s.result.stopped = run.EndOf(ctx)
	}
	return true
}

func (s *podSync) step(text string) {
	if s.req.OnStep != nil {
		s.req.OnStep(text)
	}
}

// warn records a warning on the pod.
func (s *podSync) warn(reason, message string) {
	s.m.cfg.Event(s.identity.ref(), v1.EventTypeWarning, reason, message)
}

// stop stops what must not run any longer. It tells whether to go on.
func (s *podSync) stop(ctx context.Context) bool {
	if s.ended(ctx) {
		return false
	}
	kill := podKill{identity: s.identity, pod: s.req.Pod, status: s.req.Status, own: s.actions.Kill}
	if s.actions.KillPod {
		if s.actions.CreateSandbox && s.actions.SandboxID != "" {
			s.m.cfg.Event(s.identity.ref(), v1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		}
		if !s.req.Status.Empty() {
			s.step("stopping the pod")
		}
		return s.m.killPod(ctx, kill, &s.result)
	}
	if len(s.actions.Kill) > 0 {
		s.step("stopping containers")
	}
	for i, err := range s.m.killContainers(ctx, kill, s.actions.Kill, &s.result) {
		if err != nil {
			s.failed[s.actions.Kill[i].Name] = true
		}
	}
	return !s.ended(ctx)
}

// remove clears away containers that were never started. It tells whether to go
// on.
func (s *podSync) remove(ctx context.Context) bool {
	for i := range s.actions.Remove {
		c := &s.actions.Remove[i]
		if s.ended(ctx) {
			return false
		}
		if !s.removeOne(ctx, c, false) {
			s.failed[c.Name] = true
		}
	}
	return true
}

// pruneInit clears away instances of init containers that nothing depends on any
// more. It tells whether to go on: what is left of them beside a new sandbox would
// look like its initialisation. The logs of the last ones stay then, and with them
// the restart counts, whatever becomes of the agent before the next ones.
func (s *podSync) pruneInit(ctx context.Context) bool {
	ok, seen := true, map[string]bool{}
	for i := range s.actions.PruneInit {
		c := &s.actions.PruneInit[i]
		if s.ended(ctx) {
			return false
		}
		ok = s.removeOne(ctx, c, s.actions.CreateSandbox && !seen[c.Name]) && ok
		seen[c.Name] = true
	}
	return ok || !s.actions.CreateSandbox
}

func (s *podSync) removeOne(ctx context.Context, c *observed.Container, keepLogs bool) bool {
	s.step(fmt.Sprintf("removing container %s", c.Name))
	err := s.m.removeContainer(ctx, s.identity.Pod, c.Name, c.ID.ID, keepLogs)
	s.result.add(ActionRemoveContainer, c.Name, err)
	return err == nil
}
