package cri

import (
	"fmt"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Readiness is what is known about a condition of the runtime.
type Readiness int8

// The values of a Readiness. Unknown is not the same as NotReady: nobody has
// said anything yet.
const (
	Unknown Readiness = iota
	NotReady
	Ready
)

// String returns "unknown", "not ready" or "ready".
func (r Readiness) String() string {
	switch r {
	case NotReady:
		return "not ready"
	case Ready:
		return "ready"
	default:
		return "unknown"
	}
}

// ReasonRuntimeDown is the reason of a RuntimeReady condition that is NotReady
// because the runtime no longer answers well.
const ReasonRuntimeDown = "RuntimeDown"

// Condition is a condition of the runtime.
type Condition struct {
	// Readiness is the condition's value.
	Readiness Readiness
	// Reason is a word, Message a sentence about why. Both may be empty.
	Reason, Message string
}

// Ready tells whether the condition is known to hold.
func (c Condition) Ready() bool { return c.Readiness == Ready }

// String is the readiness and, if there is one, the reason, such as
// "not ready: NetworkPluginNotReady: cni plugin not initialized".
func (c Condition) String() string {
	text := c.Readiness.String()
	for _, why := range []string{c.Reason, c.Message} {
		if why != "" {
			text += ": " + why
		}
	}
	return text
}

// Handler is a runtime handler, what a RuntimeClass names.
type Handler struct {
	// Name is the handler's name, "" for the default.
	Name string
	// RecursiveReadOnlyMounts: the handler can mount recursively read-only.
	RecursiveReadOnlyMounts bool
	// UserNamespaces: the handler can run pods in user namespaces.
	UserNamespaces bool
}

// Features are what the runtime as a whole can do.
type Features struct {
	// SupplementalGroupsPolicy: the runtime honours the policy of that name.
	SupplementalGroupsPolicy bool
	// UserNamespacesHostNetwork: pods in user namespaces may use the host's network.
	UserNamespacesHostNetwork bool
}

// Health is what is known about a runtime at a moment.
type Health struct {
	// LastGood is when the last answer came that said RuntimeReady. Zero: never.
	LastGood time.Time
	// RuntimeReady is what the runtime said last, or NotReady with
	// ReasonRuntimeDown when LastGood is too long ago. While it does not hold,
	// the node is not ready.
	RuntimeReady Condition
	// NetworkReady is what the runtime said last. While it does not hold, only
	// pods on the host's network can start.
	NetworkReady Condition
	// Handlers are the runtime's handlers, sorted by name. They and Features
	// stay as they are while the runtime does not answer.
	Handlers []Handler
	// Features are the runtime's features.
	Features Features
	// Err is why the last poll failed, nil if it did not.
	Err error
}

// Handler finds a handler by name.
func (h Health) Handler(name string) (Handler, bool) {
	for _, handler := range h.Handlers {
		if handler.Name == name {
			return handler, true
		}
	}
	return Handler{}, false
}

// next is the health after a poll that ended now.
func (h Health) next(now time.Time, reply *runtimeapi.StatusResponse, err error) Health {
	if err != nil {
		h.Err = err
		return h
	}
	conditions := reply.GetStatus().GetConditions()
	next := Health{
		LastGood:     h.LastGood,
		RuntimeReady: readCondition(conditions, runtimeapi.RuntimeReady),
		NetworkReady: readCondition(conditions, runtimeapi.NetworkReady),
		Handlers:     readHandlers(reply.GetRuntimeHandlers()),
		Features: Features{
			SupplementalGroupsPolicy:  reply.GetFeatures().GetSupplementalGroupsPolicy(),
			UserNamespacesHostNetwork: reply.GetFeatures().GetUserNamespacesHostNetwork(),
		},
	}
	if next.RuntimeReady.Ready() {
		next.LastGood = now
	}
	return next
}

func readCondition(conditions []*runtimeapi.RuntimeCondition, kind string) Condition {
	c := conditionOf(conditions, kind)
	if c == nil {
		return Condition{}
	}
	readiness := NotReady
	if c.GetStatus() {
		readiness = Ready
	}
	return Condition{Readiness: readiness, Reason: c.GetReason(), Message: c.GetMessage()}
}

// readHandlers sorts, because runtimes answer in no particular order.
func readHandlers(handlers []*runtimeapi.RuntimeHandler) []Handler {
	var out []Handler
	for _, h := range handlers {
		out = append(out, Handler{
			Name:                    h.GetName(),
			RecursiveReadOnlyMounts: h.GetFeatures().GetRecursiveReadOnlyMounts(),
			UserNamespaces:          h.GetFeatures().GetUserNamespaces(),
		})
	}
	slices.SortFunc(out, func(a, b Handler) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// at is the health as it stands at a time: a good poll counts for downAfter.
func (h Health) at(now time.Time, downAfter time.Duration) Health {
	if h.RuntimeReady.Ready() && now.Sub(h.LastGood) >= downAfter {
		h.RuntimeReady = Condition{
			Readiness: NotReady,
			Reason:    ReasonRuntimeDown,
			Message:   fmt.Sprintf("no good status since %s", h.LastGood.UTC().Format(time.RFC3339)),
		}
	}
	return h
}

// differs tells whether something changed that is worth telling: anything but
// the time of the last good poll and the text of an error.
func (h Health) differs(other Health) bool {
	return h.RuntimeReady != other.RuntimeReady || h.NetworkReady != other.NetworkReady ||
		h.Features != other.Features || !slices.Equal(h.Handlers, other.Handlers) ||
		(h.Err == nil) != (other.Err == nil)
}
