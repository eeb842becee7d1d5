package podwright

import v1 "k8s.io/api/core/v1"

// EventFunc records a Kubernetes event. The eventtype is v1.EventTypeNormal or
// v1.EventTypeWarning. It is called concurrently and must not block; the caller waits for
// its return. In a Config, nil records no events.
type EventFunc func(ref v1.ObjectReference, eventtype, reason, message string)
