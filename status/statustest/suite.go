package statustest

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/status"
)

// Harness is a sink under test with access to its storage. All fields are required.
type Harness struct {
	// Sink is the sink. It contains no pods.
	Sink status.Sink
	// Create creates a pod with its status in the sink's storage, and returns it. Its UID and
	// status may differ from the argument if the sink assigns UIDs itself. UIDs must be unique.
	Create func(pod *v1.Pod) *v1.Pod
	// Pod returns a pod in the sink's storage, or nil.
	Pod func(namespace, name string) *v1.Pod
	// Change changes the status of a pod in the sink's storage, like another client.
	Change func(namespace, name string, change func(*v1.PodStatus))
	// Remove removes a pod from the sink's storage, like another client.
	Remove func(namespace, name string)
}

// ruleTimeout bounds a rule, and a call with a cancelled context.
const ruleTimeout = 30 * time.Second

// Run tests whether a sink implements the contract of status.Sink, with one subtest per rule. It
// calls New for each subtest. New registers its cleanup with t.Cleanup. The suite runs inside and
// outside of a synctest bubble.
func Run(t *testing.T, New func(t testing.TB) Harness) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := New(t)
			if err := h.complete(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), ruleTimeout)
			defer cancel()
			if err := c.run(ctx, h); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func (h Harness) complete() error {
	f := fields.Of("statustest: Harness")
	f.Required("Sink", h.Sink)
	f.Required("Create", h.Create)
	f.Required("Pod", h.Pod)
	f.Required("Change", h.Change)
	f.Required("Remove", h.Remove)
	return f.Err()
}

type rule struct {
	name  string
	check func(*fixture) error
}

var cases = []rule{
	{"Get returns the pod as it is now", getCurrent},
	{"Get returns the pod with the name and any UID", getOther},
	{"Get returns ErrNotFound for a missing pod", getNone},
	{"Patch writes all differences", patchWrites},
	{"Patch removes fields and list elements", patchRemoves},
	{"Patch returns the pod after the write", patchReturns},
	{"Patch keeps conditions of other components", patchKeepsConditions},
	{"Patch may be repeated", patchAgain},
	{"Patch from an outdated status writes only the differences", patchStale},
	{"Patch changes no pod with another UID", patchOther},
	{"Patch creates no pod", patchNone},
	{"Patch does not change its arguments", patchArguments},
	{"returned pods do not change later", returnedUnchanged},
	{"calls for several pods may be concurrent", concurrentCalls},
	{"Patch returns when its context is done", cancelledContext},
	{"Delete removes the pod at once", deleteNow},
	{"Delete removes no pod with another UID", deleteOther},
	{"Delete returns ErrNotFound for a missing pod", deleteNone},
	{"a Writer brings every pod to its newest status", convergence},
}
