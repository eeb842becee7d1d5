package statustest

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/status"
)

// Subject is a sink under test with access to its storage, the place where it writes. Sink and Pod
// are required, for a sink that is no status.Receiver also Create, Change and Remove.
type Subject struct {
	// Sink is the sink, such as a status.SinkFunc. It contains no pods.
	Sink status.Sink
	// Create creates a pod with its status in the sink's storage, and returns it. Its UID and
	// status may differ from the argument if the sink assigns UIDs itself. UIDs must be unique.
	// For a Receiver it is called before the first status of a pod.
	Create func(pod *v1.Pod) *v1.Pod
	// Pod returns a pod in the sink's storage, or nil. For a Receiver only its status is used.
	Pod func(namespace, name string) *v1.Pod
	// Change changes the status of a pod in the sink's storage, like another client.
	Change func(namespace, name string, change func(*v1.PodStatus))
	// Remove removes a pod from the sink's storage, like another client.
	Remove func(namespace, name string)
	// Fail makes the storage refuse writes, or accept them again. Optional: without it its rules
	// are skipped.
	Fail func(fail bool)
	// Hang makes writes wait in front of the storage, or continue. A write whose context ends
	// meanwhile has no effect. Optional: without it its rule is skipped.
	Hang func(hang bool)
}

// ruleTimeout bounds a rule, and a call with a cancelled context.
const ruleTimeout = 30 * time.Second

// Run tests whether a sink implements the contract of status.Sink, with one subtest per rule. A
// status.Receiver is tested for its own contract instead, a status.DeletionReceiver also for
// deletions. Run calls New for each subtest. New registers its cleanup with t.Cleanup. Some rules
// watch the storage for a quarter of a second after a call, for late writes.
func Run(t *testing.T, New func(t testing.TB) Subject) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := New(t)
			if err := h.complete(); err != nil {
				t.Fatal(err)
			}
			if !c.needs(h) {
				t.Skip("the rule is for other sinks, or needs Fail or Hang")
			}
			ctx, cancel := context.WithTimeout(t.Context(), ruleTimeout)
			defer cancel()
			if err := c.run(ctx, h); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func (h Subject) complete() error {
	f := fields.Of("statustest: Subject")
	f.Required("Sink", h.Sink)
	f.Required("Pod", h.Pod)
	if !receives(h) {
		f.Required("Create", h.Create)
		f.Required("Change", h.Change)
		f.Required("Remove", h.Remove)
	}
	return f.Err()
}

type rule struct {
	name  string
	needs func(Subject) bool
	check func(*fixture) error
}

func receives(h Subject) bool {
	_, ok := h.Sink.(status.Receiver)
	return ok
}

func stores(h Subject) bool { return !receives(h) }

func receivesDeletions(h Subject) bool {
	_, ok := h.Sink.(status.DeletionReceiver)
	return ok
}

func deletes(h Subject) bool { return stores(h) || receivesDeletions(h) }

func every(Subject) bool { return true }

func fails(h Subject) bool { return h.Fail != nil }

func hangs(h Subject) bool { return h.Hang != nil }

var cases = []rule{
	{"Get returns the pod as it is now", stores, getCurrent},
	{"Get returns the pod with the name and any UID", stores, getOther},
	{"Get returns ErrNotFound for a missing pod", stores, getNone},
	{"a call writes all differences before it returns", every, writes},
	{"Patch removes fields and list elements", stores, patchRemoves},
	{"Patch returns the pod after the write", stores, patchReturns},
	{"Patch keeps conditions of other components", stores, patchKeepsConditions},
	{"Patch from an outdated status writes only the differences", stores, patchStale},
	{"Patch changes no pod with another UID", stores, patchOther},
	{"Patch creates no pod", stores, patchNone},
	{"a newer status is not replaced by an older one", every, order},
	{"a status may skip others", every, skipStates},
	{"a call may be repeated", every, again},
	{"a call does not change its arguments", every, unchangedArguments},
	{"returned pods do not change later", stores, returnedUnchanged},
	{"calls for several pods may be concurrent", every, concurrentCalls},
	{"a call returns when its context is done", every, cancelledContext},
	{"the end of its context ends the writes of a call", hangs, lateWrite},
	{"a refused write is an error", fails, failedWrite},
	{"a failed call is followed only by newer statuses", fails, retry},
	{"Delete removes the pod at once", stores, deleteNow},
	{"Delete removes no pod with another UID", stores, deleteOther},
	{"Delete returns ErrNotFound for a missing pod", stores, deleteNone},
	{"a deleted pod stays absent", deletes, deletedForGood},
	{"a deletion may be repeated", receivesDeletions, deletedAgain},
	{"a pod may return with the UID of a deleted one", receivesDeletions, returned},
	{"a deletion removes no other pod with the name", receivesDeletions, namesake},
	{"a Writer brings every pod to its newest status", every, convergence},
}
