package node

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Event is a Kubernetes event about a node.
type Event struct {
	// Type is v1.EventTypeNormal or v1.EventTypeWarning.
	Type string
	// Reason is a word, Message a sentence.
	Reason, Message string
}

// Events returns the events between two statuses of a node. Another boot ID means a reboot. old
// may be nil for a new node: the events are then only those of its pressure conditions.
func Events(name string, old, new *v1.NodeStatus) (events []Event) {
	was := v1.NodeStatus{}
	if old != nil {
		was = *old
	}
	if before, now := was.NodeInfo.BootID, new.NodeInfo.BootID; before != "" && now != "" && before != now {
		events = append(events, Event{v1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s", name, now)})
	}
	became := func(reason string) {
		events = append(events, Event{v1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", name, reason)})
	}
	for _, p := range []pressure{memoryPressure(), diskPressure(), pidPressure()} {
		switch changedTo(&was, new, p.kind) {
		case v1.ConditionTrue:
			became(p.shortEvent)
		case v1.ConditionFalse:
			became(p.fineEvent)
		}
	}
	if Condition(&was, v1.NodeReady) == nil {
		return events
	}
	switch changedTo(&was, new, v1.NodeReady) {
	case v1.ConditionTrue:
		became("NodeReady")
	case v1.ConditionFalse:
		became("NodeNotReady")
	}
	return events
}

func changedTo(old, new *v1.NodeStatus, kind v1.NodeConditionType) v1.ConditionStatus {
	was, is := Condition(old, kind), Condition(new, kind)
	if is == nil || (was != nil && was.Status == is.Status) {
		return ""
	}
	return is.Status
}
