package syncloop

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
)

// Admitter decides whether a new pod may start.
//
// It is called by the Loop's goroutine, one pod at a time, and answers from
// memory. The pods are shared and must never be changed, nor the slice. A pod is
// asked about when it is added and has not begun to run, and again when it starts
// anew under its old UID. After a restart of the agent it is asked about pods that
// run already, as for all the Loop knows they are new.
type Admitter interface {
	// Admit returns nil if pod may start beside the active pods: those that hold
	// resources of the node or are about to, pods that were deleted by force
	// included while they still terminate. It returns
	//
	//   - an error that is or wraps a *Rejection if the pod must not start: it has
	//     failed, for good;
	//   - any other error if that cannot be said yet. The pod is held back and
	//     asked about again when it is updated and in each housekeeping. It does not
	//     count as active.
	//
	// A panic is taken for the latter.
	Admit(pod *v1.Pod, active []*v1.Pod) error
}

// AdmitterFunc is a function that is an Admitter.
type AdmitterFunc func(pod *v1.Pod, active []*v1.Pod) error

// Admit calls f.
func (f AdmitterFunc) Admit(pod *v1.Pod, active []*v1.Pod) error { return f(pod, active) }

// Rejection is why a pod was not admitted. It is an error, for Admitters.
type Rejection struct {
	// Reason is one word in CamelCase, Message a sentence.
	Reason, Message string
}

// Error returns the reason and the message.
func (r *Rejection) Error() string { return r.Reason + ": " + r.Message }

// Reject returns a *Rejection, for an Admitter to return.
func Reject(reason, format string, args ...any) error {
	return &Rejection{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// AdmitAll returns an Admitter that asks others in turn. The first one that does
// not admit a pod decides.
func AdmitAll(admitters ...Admitter) Admitter {
	return AdmitterFunc(func(pod *v1.Pod, active []*v1.Pod) error {
		for i, a := range admitters {
			what := fmt.Sprintf("admitter %d of %d (%T)", i+1, len(admitters), a)
			if err := run.Guard(what, func() error { return a.Admit(pod, active) }); !admitted(err) {
				return err
			}
		}
		return nil
	})
}

// admitted tells whether an Admitter's answer is yes. A *Rejection that is nil is
// what a function returns that declares one and never sets it.
func admitted(err error) bool {
	if err == nil {
		return true
	}
	why, ok := err.(*Rejection)
	return ok && why == nil
}
