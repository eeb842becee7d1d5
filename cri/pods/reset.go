package pods

import (
	"context"

	"github.com/podwright/podwright/pleg/observed"
)

// reset restarts all containers of a pod together (KEP-5532): it takes every
// instance away in the order of the list, so that the next sync finds a pod that
// has never run in its sandbox. Logs stay, and with them the restart counts. What
// triggered it goes last: until then a crash of the agent leaves the trigger. It
// tells whether to go on, which is when there was nothing to reset.
func (s *podSync) reset(ctx context.Context) bool {
	for i := range s.actions.Reset {
		c := &s.actions.Reset[i]
		if s.ended(ctx) || c.State != observed.StateExited && !s.resetStop(ctx, c) || !s.removeOne(ctx, c, true) {
			return false
		}
		s.m.clearFailure(s.identity.UID, c.Name) // nothing holds it back any more
	}
	s.result.again = len(s.actions.Reset) > 0
	return !s.result.again
}

// resetStop stops an instance without grace. It tells whether it has stopped.
func (s *podSync) resetStop(ctx context.Context, c *observed.Container) bool {
	s.step("stopping container " + c.Name)
	none := int64(0)
	kill := podKill{identity: s.identity, pod: s.req.Pod, status: s.req.Status, override: &none}
	errs := s.m.killContainers(ctx, kill, []ContainerKill{{
		ID: c.ID, Name: c.Name, Message: "Restarting all containers of the pod",
	}}, &s.result)
	return errs[0] == nil
}
