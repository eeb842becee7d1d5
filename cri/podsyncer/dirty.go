package podsyncer

import (
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/syncloop"
)

// observedEvent passes an event of the PLEG on to the loop, as a hint.
func observedEvent(e pleg.Event) syncloop.Event {
	kind := syncloop.PodDirty
	switch e.Type {
	case pleg.Died:
		kind = syncloop.ContainerDied
	case pleg.Removed:
		kind = syncloop.ContainerRemoved
	}
	return syncloop.Event{Kind: kind, UID: e.UID}
}

// probedEvent passes a result of a probe on to the loop, as a hint.
func probedEvent(c probe.Change) syncloop.Event {
	kind := syncloop.LivenessPassed
	switch c.Type {
	case probe.Readiness:
		kind = syncloop.ReadinessChanged
	case probe.Startup:
		kind = syncloop.StartupChanged
	case probe.Liveness:
		if c.Result != probe.Success {
			kind = syncloop.LivenessFailed
		}
	}
	return syncloop.Event{Kind: kind, UID: c.UID}
}

// probed takes in the result of a probe that has changed. What it means for the
// pod's conditions is shown at once, also while a worker is busy with the pod; what
// it means for its containers is the next sync's matter.
func (s *Syncer) probed(c probe.Change) {
	s.statuses.SetProbed(c)
	s.inbox.Emit(probedEvent(c))
}
