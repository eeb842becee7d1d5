package pods

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg/observed"
)

// postStart runs the handler of a container that has just started. Nothing else
// of the pod is done until it ends: that is what such hooks are for. A container whose
// hook fails is stopped, with its preStop hook and grace period. One whose pod is
// deleted by then is left to those who stop the pod.
//
// What the hook wrote is for the log and not for the event: it may be a secret.
func (s *podSync) postStart(ctx context.Context, c podContainer, id string) *StartError {
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return nil
	}
	s.step("running the postStart hook of " + c.String())
	output, err := "", errors.New("this agent runs no lifecycle handlers")
	if s.m.cfg.Hooks != nil {
		output, err = s.m.cfg.Hooks.Run(ctx, s.req.Pod, c.Container, id, c.Lifecycle.PostStart)
	}
	if err == nil {
		return nil
	}
	failure := &StartError{Container: c.Name, Reason: ReasonPostStartHookError, Message: "PostStartHook failed", Err: err}
	if ctx.Err() != nil {
		return failure
	}
	s.m.log.Warn("postStart hook failed", "pod", s.identity, "container", c.Name, "err", err, "output", output)
	s.m.cfg.Event(s.identity.containerRef(s.req.Pod, c.Name), v1.EventTypeWarning, "FailedPostStartHook", failure.Message)
	kill := ContainerKill{
		ID:   observed.ContainerID{Runtime: s.m.cfg.RuntimeName, ID: id},
		Name: c.Name, Message: "Container " + c.Name + " failed its postStart hook, it will be killed",
	}
	s.step("stopping " + c.String())
	s.m.killContainers(ctx, podKill{identity: s.identity, pod: s.req.Pod, status: s.req.Status}, []ContainerKill{kill}, &s.result)
	return failure
}
