package cri

import (
	"fmt"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/clip"
)

// Readiness is the state of a runtime condition.
type Readiness int8

// The values of a Readiness. Unknown means that the runtime has reported no state yet.
const (
	Unknown Readiness = iota
	NotReady
	Ready
)

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

// ReasonRuntimeDown is the reason of a RuntimeReady condition that is NotReady because polls have
// failed for too long.
const ReasonRuntimeDown = "RuntimeDown"

// Condition is a condition of the runtime.
type Condition struct {
	Readiness Readiness
	// Reason is a word and Message a sentence about the cause. Both may be empty. At most 1 KiB and
	// 4 KiB of the runtime's texts are kept.
	Reason, Message string
}

// Ready reports whether the condition is Ready.
func (c Condition) Ready() bool { return c.Readiness == Ready }

// String returns the readiness with reason and message, if any, such as "not ready:
// NetworkPluginNotReady: cni plugin not initialized".
func (c Condition) String() string {
	text := c.Readiness.String()
	for _, why := range []string{c.Reason, c.Message} {
		if why != "" {
			text += ": " + why
		}
	}
	return text
}

// Handler is a runtime handler, the target of a RuntimeClass.
type Handler struct {
	// Name is "" for the default handler.
	Name string
	// RecursiveReadOnlyMounts is true if the handler supports recursive read-only mounts.
	RecursiveReadOnlyMounts bool
	// UserNamespaces is true if the handler supports pods in user namespaces.
	UserNamespaces bool
}

// Features are abilities of the runtime, independent of handlers.
type Features struct {
	// SupplementalGroupsPolicy is true if the runtime applies a pod's supplementalGroupsPolicy.
	SupplementalGroupsPolicy bool
	// UserNamespacesHostNetwork is true if pods in user namespaces may use the host's network.
	UserNamespacesHostNetwork bool
}

// Health is the state of a runtime at one time.
type Health struct {
	// LastGood is the end of the last poll that returned RuntimeReady. Zero: none yet.
	LastGood time.Time
	// RuntimeReady is the last reported condition, or NotReady with ReasonRuntimeDown when polls of a
	// ready runtime have failed for too long. While it is not Ready, the node is not ready.
	RuntimeReady Condition
	// NetworkReady is the last reported condition. While it is not Ready, only pods on the host's
	// network can start.
	NetworkReady Condition
	// Handlers are the runtime's handlers, sorted by name. A failed poll leaves Handlers and
	// Features unchanged.
	Handlers []Handler
	Features Features
	// Err is the error of the last poll, or nil.
	Err error

	// failing is the start of the first failed poll after the last good one, or zero.
	failing time.Time
}

// Handler returns the handler with this name.
func (h Health) Handler(name string) (Handler, bool) {
	for _, handler := range h.Handlers {
		if handler.Name == name {
			return handler, true
		}
	}
	return Handler{}, false
}

// good returns the health after a successful poll that ended at now.
func (h Health) good(now time.Time, reply *runtimeapi.StatusResponse) Health {
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

// failed returns the health after a failed poll from began to now. A ready runtime becomes NotReady at
// the second or a later failed poll in a row, when polls have failed for the duration limit.
func (h Health) failed(began, now time.Time, err error, limit time.Duration) Health {
	h.Err = err
	switch {
	case h.failing.IsZero():
		// A poll of another caller may have succeeded after this one began.
		h.failing = slices.MaxFunc([]time.Time{began, h.LastGood}, time.Time.Compare)
	case h.RuntimeReady.Ready() && now.Sub(h.failing) >= limit:
		h.RuntimeReady = Condition{
			Readiness: NotReady,
			Reason:    ReasonRuntimeDown,
			Message:   fmt.Sprintf("no successful status call since %s", h.LastGood.UTC().Format(time.RFC3339)),
		}
	}
	return h
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
	return Condition{Readiness: readiness, Reason: clip.Text(c.GetReason(), clip.Reason), Message: clip.Text(c.GetMessage(), clip.Message)}
}

// readHandlers sorts the handlers by name, because runtimes return them in no particular order.
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

// differs reports whether other has a change worth reporting. LastGood and the text of Err do not
// count.
func (h Health) differs(other Health) bool {
	return h.RuntimeReady != other.RuntimeReady || h.NetworkReady != other.NetworkReady ||
		h.Features != other.Features || !slices.Equal(h.Handlers, other.Handlers) ||
		(h.Err == nil) != (other.Err == nil)
}
