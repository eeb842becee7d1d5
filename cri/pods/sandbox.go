package pods

import (
	"context"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/internal/run"
)

// runningSandbox is the sandbox for the containers of a sync.
type runningSandbox struct {
	id     string
	config *runtimeapi.PodSandboxConfig
	ips    []string
}

// prepareSandbox finds or creates the sandbox. It reports whether the sync continues.
func (s *podSync) prepareSandbox(ctx context.Context) bool {
	build := s.m.builder.SandboxAgain
	if s.actions.CreateSandbox {
		build = s.m.builder.Sandbox
	}
	config, err := build(s.req.Pod, s.actions.Attempt)
	if err != nil {
		s.result.add(ActionConfigPodSandbox, s.identity.Name, fmt.Errorf("sandbox configuration: %w", err))
		s.warn("FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
		return false
	}
	s.sandbox = runningSandbox{id: s.actions.SandboxID, config: config, ips: s.req.Status.IPs}
	if !s.actions.CreateSandbox {
		return true
	}
	if s.sandboxBackOff() {
		return false
	}
	reason, err := s.createSandbox(ctx)
	if err != nil && s.ended(ctx) {
		return false
	}
	s.result.add(ActionCreatePodSandbox, s.identity.Name, err)
	switch {
	case err == nil:
	case reason == failedSandboxStatus:
		s.warn(reason, fmt.Sprintf("Unable to get pod sandbox status: %v", err))
	default:
		s.warn(reason, fmt.Sprintf("Failed to create pod sandbox: %v", err))
	}
	return err == nil
}

const failedSandboxStatus = "FailedPodSandBoxStatus"

// sandboxBackOff reports whether the pod must wait for its next sandbox, and ends the sync if so. The
// first replacement is immediate. Each further one doubles the delay, from 1 s, because some
// runtimes create unusable sandboxes, such as ready ones without an address.
func (s *podSync) sandboxBackOff() bool {
	until := s.m.sandboxes.Until(s.sandboxKey(), time.Time{})
	if time.Now().Before(until) {
		s.result.stopped = &sandboxWait{until: until}
	}
	return s.result.stopped != nil
}

func (s *podSync) sandboxKey() string { return crashLoopPrefix(s.identity.UID) }

// sandboxWait is the error of a sync that waits before it replaces a sandbox.
type sandboxWait struct{ until time.Time }

func (w *sandboxWait) Error() string {
	return "back-off until " + w.until.Format(time.RFC3339) + " before the sandbox is replaced again"
}

// NotBefore returns the time of the next useful attempt.
func (w *sandboxWait) NotBefore() time.Time { return w.until }

// createSandbox runs a sandbox. With an error it returns the reason of the event. The sandbox's
// name contains the attempt: if an earlier call is still running, the runtime refuses the second,
// so there are never two sandboxes.
func (s *podSync) createSandbox(ctx context.Context) (string, error) {
	const failed = "FailedCreatePodSandBox"
	s.step("creating the sandbox")
	if err := s.m.files.MakeLogDir(s.identity.Pod, ""); err != nil {
		return failed, fmt.Errorf("log directory: %w", err)
	}
	handler, err := s.runtimeHandler(ctx)
	if err != nil {
		return failed, err
	}
	if err := s.record.NotePod(s.req.Pod); err != nil {
		return failed, err
	}
	if s.sandbox.id, err = s.runSandbox(ctx, handler); err != nil {
		return failed, fmt.Errorf("run sandbox: %w", err)
	}
	response, err := s.m.cfg.Runtime.PodSandboxStatus(ctx, s.sandbox.id, false)
	if err == nil && response.GetStatus() == nil {
		err = errors.New("the runtime's reply has no status")
	}
	if err != nil {
		return failedSandboxStatus, fmt.Errorf("status of sandbox %s: %w", s.sandbox.id, err)
	}
	if now := time.Now(); s.actions.Attempt > 0 {
		s.m.sandboxes.Next(s.sandboxKey(), now, now)
	}
	s.actions.SandboxID = s.sandbox.id // resizes use the new sandbox
	s.sandbox.ips = observe.SandboxIPs(response.Status.Network)
	if s.req.OnSandboxReady != nil {
		s.req.OnSandboxReady(s.m.builder.PodIPs(s.req.Pod, s.sandbox.ips))
	}
	return "", nil
}

func (s *podSync) runSandbox(ctx context.Context, handler string) (string, error) {
	leave, err := s.m.gate.enter(ctx, false)
	if err != nil {
		return "", err
	}
	defer leave()
	call, done := run.WithGrace(ctx, stepGrace)
	defer done()
	begin := time.Now()
	id, err := s.m.cfg.Runtime.RunPodSandbox(call, s.sandbox.config, handler)
	if err == nil || ctx.Err() == nil {
		s.m.cfg.Metrics.OnSandboxStart(handler, time.Since(begin), err)
	}
	return id, err
}

func (s *podSync) runtimeHandler(ctx context.Context) (string, error) {
	class := s.req.Pod.Spec.RuntimeClassName
	if class == nil || *class == "" {
		return "", nil
	}
	if s.m.cfg.RuntimeHandler == nil {
		return "", fmt.Errorf("spec.runtimeClassName: %q: this agent has no runtime classes", *class)
	}
	handler, err := s.m.cfg.RuntimeHandler(ctx, s.req.Pod)
	if err != nil {
		return "", fmt.Errorf("spec.runtimeClassName: %q: %w", *class, err)
	}
	return handler, nil
}
