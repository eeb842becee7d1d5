package syncloop

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
)

// Admitter decides whether a new pod may start.
//
// The Loop's goroutine calls it for one pod at a time. It must not block. The pods and the slice
// are shared and must not be changed. It is called when a pod is added that has not started, and
// again when the pod restarts under its old UID. After a restart of the agent it is called for
// running pods, too, because they are new to the Loop.
type Admitter interface {
	// Admit returns nil if pod may start beside the active pods. These are the pods that use
	// resources of the node or are about to, including terminating pods that were force-deleted.
	// Admit returns
	//
	//   - an error that is or wraps a *Rejection if the pod must not start: the pod has failed
	//     permanently;
	//   - any other error if it cannot decide yet. The pod waits and is retried when it is updated
	//     and in each housekeeping. It does not count as active.
	//
	// A panic counts as the latter.
	Admit(pod *v1.Pod, active []*v1.Pod) error
}

// AdmitterFunc is a function that implements Admitter.
type AdmitterFunc func(pod *v1.Pod, active []*v1.Pod) error

// Admit calls f.
func (f AdmitterFunc) Admit(pod *v1.Pod, active []*v1.Pod) error { return f(pod, active) }

// Rejection is the reason for refusing a pod permanently. Admitters return it as an error.
type Rejection struct {
	// Reason is one word in CamelCase. Message is a sentence.
	Reason, Message string
}

func (r *Rejection) Error() string { return r.Reason + ": " + r.Message }

// Reject returns a *Rejection as an error.
func Reject(reason, format string, args ...any) error {
	return &Rejection{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// AdmitAll returns an Admitter that calls others in order. The first error is its result.
func AdmitAll(admitters ...Admitter) Admitter {
	return AdmitterFunc(func(pod *v1.Pod, active []*v1.Pod) error {
		for i, a := range admitters {
			name := fmt.Sprintf("admitter %d of %d (%T)", i+1, len(admitters), a)
			if err := run.Guard(name, func() error { return a.Admit(pod, active) }); !admitted(err) {
				return err
			}
		}
		return nil
	})
}

// admitted reports whether err means admission. A nil *Rejection counts as nil: functions that
// declare one and never set it return that.
func admitted(err error) bool {
	if err == nil {
		return true
	}
	rejection, ok := err.(*Rejection)
	return ok && rejection == nil
}
