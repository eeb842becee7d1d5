package podsyncer

import (
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/syncloop"
)

// observedEvent converts an event of the PLEG to a hint for the loop.
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

// probedEvent converts a probe result to a hint for the loop.
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

// probed handles a changed probe result. The pod's conditions change at once, even while a worker
// is busy with the pod; the next sync applies the result to the containers.
func (s *Syncer) probed(c probe.Change) {
	s.statuses.SetProbed(c)
	s.inbox.Emit(probedEvent(c))
}
