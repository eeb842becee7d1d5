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

// SyncRequest is the input of SyncPod.
type SyncRequest struct {
	// Pod is the desired pod, with the resources that the node has allocated to it. SyncPod does
	// not change it. Required.
	Pod *v1.Pod
	// Status is the pod's state in the runtime, observed after the last call that changed the
	// pod. Required. With a nil Status or another UID SyncPod does no step, and Result.Err is set.
	Status *observed.Pod
	// Probes are the results of the pod's probes (probe.Manager.Results). A missing result is
	// unknown. A sidecar with a startup probe has started once the probe has succeeded; after a
	// restart of the agent the published status counts until the probe has run again.
	Probes probe.Results
	// RestartAll restarts all containers of the pod in their sandbox (KEP-5532). Set it only if
	// the runtime no longer lists the exited container that triggers the restart: SyncPod detects
	// a listed one itself.
	RestartAll bool
	// OnStep is called with the current step of the sync, for the pod's explanation. Calls do not
	// overlap. Optional.
	OnStep func(step string)
	// OnSandboxReady is called with the addresses of a new sandbox before any image is pulled. It
	// must not block. Optional.
	OnSandboxReady func(ips []string)
	// Newer returns a newer state of the pod with its probe results, or nil, without waiting. It is
	// called every second while containers stop, so that others that end meanwhile restart without
	// a delay. Optional.
	Newer func() (*observed.Pod, probe.Results)
}

// SyncPod carries out the result of actions.Compute in this order: stop, remove, sandbox,
// resizes, ephemeral containers, init containers, regular containers. A container with changed
// resources starts only after the pod's cgroup has been resized. While SyncPod stops single
// containers, it starts the containers that do not depend on a stop, unless a resize is due. The
// kubelet waits for all stops.
// If a plain init container fails to start, the sync ends. Other containers are independent:
// after a failure the sync continues with the next container.
// SyncPod returns soon after ctx is done: pulls, hooks and waits end, and no further runtime call
// is made (see Contexts in the package documentation).
func (m *Manager) SyncPod(ctx context.Context, r SyncRequest) Result {
	if r.Pod == nil || r.Status == nil {
		return Result{stopped: errors.New("pods: SyncRequest.Pod and SyncRequest.Status are required")}
	}
	if err := checkIdentity(r.Pod, r.Status); err != nil {
		return Result{stopped: fmt.Errorf("pods: SyncRequest: %w", err)}
	}
	s := &podSync{m: m, req: r, identity: identityOf(r.Pod), failed: map[string]bool{}, unrecorded: map[string]bool{}, volumes: imageVolumes{}}
	s.result.Pod = s.identity.String()
	var err error
	if s.record, err = resize.Load(m.cfg.Actuated, r.Pod.UID); err != nil {
		s.result.stopped = err
		return s.result
	}
	if err := s.record.NoteNew(r.Pod, r.Status); err != nil { // each start tries again
		m.log.Warn("recording the resources of new containers failed", "pod", s.identity, "err", err)
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

// countUsers counts sandboxes with user namespaces. It runs at the end of the sync, because a
// runtime without support often fails only at the first container.
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
	// failed has the names of containers that cannot start in this sync: their previous instance
	// could not be stopped or removed, or the pod's cgroup lacks their resources.
	failed map[string]bool
	// unrecorded has the names of containers that start before the pod's cgroup has their
	// resources. Their record stays, so that the resize is retried.
	unrecorded map[string]bool
	// started is the number of containers that this sync started.
	started int
	volumes imageVolumes
	// record has the resources last applied in the runtime.
	record *resize.Record
}

// input returns the input of actions.Compute. The status is enough to detect a restart of all
// containers, because the exit that triggers it is removed last.
func (s *podSync) input() actions.Input {
	return actions.Input{
		Pod: s.req.Pod, Status: s.req.Status, Probes: s.req.Probes, Actuated: s.record.Actuated(),
		RestartAll: s.req.RestartAll || actions.RestartAllTriggered(s.req.Pod, s.req.Status, nil),
	}
}

func (s *podSync) run(ctx context.Context) {
	s.repairLinks()
	if s.startsBesideStops() {
		s.stopAndStart(ctx)
		return
	}
	if !s.stop(ctx) || !s.reset(ctx) || !s.remove(ctx) || !s.pruneInit(ctx) {
		return
	}
	if s.actions.Starts() && !s.prepareSandbox(ctx) {
		return
	}
	s.resize(ctx)
	if !s.startAll(ctx, ephemeralContainer, s.actions.StartEphemeral) || !s.startAll(ctx, initContainer, s.actions.StartInit) {
		return
	}
	s.startAll(ctx, regularContainer, s.actions.StartRegular)
}

// repairLinks makes missing links to logs.
func (s *podSync) repairLinks() {
	for _, c := range s.req.Status.Running() {
		if err := s.m.files.RepairLink(s.identity.Pod, c.Name, c.ID.ID, c.LogPath); err != nil {
			s.m.log.Warn("linking to a container log failed", "pod", s.identity, "container", c.Name, "err", err)
		}
	}
}

// startAll starts containers one after another and reports whether the sync continues.
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

// ended reports whether ctx is done, and records that in the result.
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

func (s *podSync) warn(reason, message string) {
	s.m.cfg.Event(s.identity.ref(), v1.EventTypeWarning, reason, message)
}

// stop stops the containers or the pod that must not run. It reports whether the sync continues.
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

// remove removes containers that were never started. It reports whether the sync continues.
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

// pruneInit removes instances of init containers that are no longer needed. It reports whether
// the sync continues: beside a new sandbox, a remaining instance would look like the sandbox's
// own initialisation. In that case the logs of the newest instances stay, and with them the
// restart counts, even if the agent ends before the next instances.
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
