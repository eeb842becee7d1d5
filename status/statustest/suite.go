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
	{"Get returns the pod that has the name, whatever its UID", getOther},
	{"Get tells that there is no pod", getNone},
	{"Patch writes all that differs", patchWrites},
	{"Patch removes what is wanted no more", patchRemoves},
	{"Patch returns the pod as it is then", patchReturns},
	{"Patch leaves conditions of others alone", patchKeepsConditions},
	{"Patch may be repeated", patchAgain},
	{"Patch from an old state changes what differs", patchStale},
	{"Patch writes to no pod of another UID", patchOther},
	{"Patch makes no pod", patchNone},
	{"Patch leaves its arguments alone", patchArguments},
	{"what was returned does not change", returnedUnchanged},
	{"pods are written at the same time", concurrentCalls},
	{"a context that has ended ends calls", cancelledContext},
	{"Delete removes the pod at once", deleteNow},
	{"Delete removes no pod of another UID", deleteOther},
	{"Delete tells that there is no pod", deleteNone},
	{"a manager brings every pod to the newest status", convergence},
}
