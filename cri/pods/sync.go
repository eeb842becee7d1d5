package pods

import (
	"context"
	"errors"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/pleg"
)

// SyncRequest asks for a pod to be brought closer to its spec.
type SyncRequest struct {
	// Pod is the desired pod. It is not changed.
	Pod *v1.Pod
	// Status is what the runtime has of the pod, observed after the last call
	// that changed it.
	Status *pleg.PodStatus
	// Liveness and Startup are the results of the probes by container; a missing
	// one is unknown.
	Liveness, Startup map[pleg.ContainerID]ProbeResult
	// SetStep is told what the sync is at, for people who ask why a pod is not
	// up yet; may be nil.
	SetStep func(step string)
	// SandboxReady is told the addresses of a new sandbox before anything is
	// pulled; may be nil. It must not block.
	SandboxReady func(ips []string)
}

// SyncPod does what ComputeActions asks for, in order: stop, clear away, sandbox,
// containers. Containers do not depend on each other: one that fails does not
// keep the next from starting. It returns soon after ctx ends: pulls and waits
// end with it, and no further runtime call is made.
func (m *Manager) SyncPod(ctx context.Context, r SyncRequest) Result {
	if r.Pod == nil || r.Status == nil {
		return Result{stopped: errors.New("pods: SyncRequest.Pod and SyncRequest.Status are required")}
	}
	s := &podSync{m: m, req: r, identity: identityOf(r.Pod), failed: map[string]bool{}}
	s.result.Pod = s.identity.String()
	s.actions = ComputeActions(ActionsInput{Pod: r.Pod, Status: r.Status, Liveness: r.Liveness, Startup: r.Startup})
	s.result.over = s.actions.KillPod && len(s.actions.Start) == 0
	m.log.Debug("sync", "pod", s.identity, "actions", s.actions)
	s.run(ctx)
	return s.result
}

// podSync is one call of SyncPod.
type podSync struct {
	m        *Manager
	req      SyncRequest
	identity podIdentity
	actions  Actions
	result   Result

	sandbox runningSandbox
	// failed names the containers whose predecessor is still in the way.
	failed map[string]bool
}

// runningSandbox is what containers are started in.
type runningSandbox struct {
	id     string
	config *runtimeapi.PodSandboxConfig
	ips    []string
}

func (s *podSync) run(ctx context.Context) {
	s.m.repairLinks(s.identity, s.req.Status)
	if !s.stop(ctx) || !s.remove(ctx) || len(s.actions.Start) == 0 {
		return
	}
	if !s.prepareSandbox(ctx) {
		return
	}
	for _, i := range s.actions.Start {
		if s.ended(ctx) {
			return
		}
		s.startContainer(ctx, &s.req.Pod.Spec.Containers[i])
	}
}

// ended tells whether ctx has ended, and makes that part of the result.
func (s *podSync) ended(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	if s.result.stopped == nil {
		s.result.stopped = endOf(ctx)
	}
	return true
}

func (s *podSync) step(text string) {
	if s.req.SetStep != nil {
		s.req.SetStep(text)
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
		s.step("stopping the pod")
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
	for _, c := range s.actions.Remove {
		if s.ended(ctx) {
			return false
		}
		s.step("removing container " + c.Name)
		err := s.m.removeContainer(ctx, s.identity, c.Name, c.ID.ID, false)
		s.result.add(ActionRemoveContainer, c.Name, err)
		if err != nil {
			s.failed[c.Name] = true
		}
	}
	return true
}

// prepareSandbox finds or makes what containers are started in. It tells whether
// to go on.
func (s *podSync) prepareSandbox(ctx context.Context) bool {
	config, err := s.m.sandboxConfig(s.req.Pod, s.actions.Attempt)
	if err != nil {
		err = fmt.Errorf("sandbox configuration: %w", err)
		s.result.add(ActionConfigPodSandbox, s.identity.Name, err)
		s.warn("FailedCreatePodSandBox", err.Error())
		return false
	}
	s.sandbox = runningSandbox{id: s.actions.SandboxID, config: config, ips: s.req.Status.IPs}
	if !s.actions.CreateSandbox {
		return true
	}
	reason, err := s.createSandbox(ctx)
	if err != nil && s.ended(ctx) {
		return false // nobody wants to know any more
	}
	s.result.add(ActionCreatePodSandbox, s.identity.Name, err)
	if err != nil {
		s.warn(reason, err.Error())
	}
	return err == nil
}

// createSandbox starts a sandbox and returns, with an error, the reason for the
// event. Its name is the attempt's: if an earlier call is still at it in the
// runtime, the runtime refuses, and there are never two.
func (s *podSync) createSandbox(ctx context.Context) (string, error) {
	const failed = "FailedCreatePodSandBox"
	s.step("creating the sandbox")
	if err := os.MkdirAll(s.sandbox.config.LogDirectory, 0o755); err != nil {
		return failed, fmt.Errorf("log directory: %w", err)
	}
	handler, err := s.runtimeHandler(ctx)
	if err != nil {
		return failed, err
	}
	if s.sandbox.id, err = s.runSandbox(ctx, handler); err != nil {
		return failed, fmt.Errorf("run sandbox: %w", err)
	}
	response, err := s.m.cfg.Runtime.PodSandboxStatus(ctx, s.sandbox.id, false)
	if err == nil && response.GetStatus() == nil {
		err = errors.New("the runtime answered without a status")
	}
	if err != nil {
		return "FailedPodSandBoxStatus", fmt.Errorf("status of sandbox %s: %w", s.sandbox.id, err)
	}
	s.sandbox.ips = sandboxIPs(response.Status.Network)
	if s.req.SandboxReady != nil {
		s.req.SandboxReady(s.m.podIPs(s.req.Pod, s.sandbox.ips))
	}
	return "", nil
}

func (s *podSync) runSandbox(ctx context.Context, handler string) (string, error) {
	leave, err := s.m.gate.enter(ctx, false)
	if err != nil {
		return "", err
	}
	defer leave()
	call, done := s.m.step(ctx)
	defer done()
	return s.m.cfg.Runtime.RunPodSandbox(call, s.sandbox.config, handler)
}

func (s *podSync) runtimeHandler(ctx context.Context) (string, error) {
	class := s.req.Pod.Spec.RuntimeClassName
	if class == nil || *class == "" {
		return "", nil
	}
	if s.m.cfg.RuntimeHandler == nil {
		return "", fmt.Errorf("runtimeClassName %q: this agent knows no runtime classes", *class)
	}
	handler, err := s.m.cfg.RuntimeHandler(ctx, s.req.Pod)
	if err != nil {
		return "", fmt.Errorf("runtimeClassName %q: %w", *class, err)
	}
	return handler, nil
}
