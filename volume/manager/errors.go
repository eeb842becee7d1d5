package manager

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

var (
	// ErrAlreadyRun is returned by the second call of Run.
	ErrAlreadyRun = fields.AlreadyRun("manager")
	// ErrEnded is returned by Prepare and Release after the end of Run.
	ErrEnded = errors.New("manager: Run has ended")
	// ErrShutdownTimeout is wrapped by the error of Run if operations ignored the end of their
	// context. The error lists them.
	ErrShutdownTimeout = run.ErrShutdownTimeout
	// ErrReleased is wrapped by the error of a Prepare whose pod was released in the meantime.
	// ErrPrepared is wrapped by the error of a Release whose pod was prepared in the meantime.
	ErrReleased = errors.New("released in the meantime")
	ErrPrepared = errors.New("prepared in the meantime")

	errGoexit = volume.Uncertain(errors.New("the plugin called runtime.Goexit"))
)

// NotReadyError is returned by Prepare and Release if volumes are not ready and no operation
// makes progress, or ctx is done. The manager continues to retry.
type NotReadyError struct {
	// Pod is the pod's name for people.
	Pod string
	UID types.UID
	// Action is "mount" or "unmount".
	Action string
	// Volumes are the volumes that are not ready, or not unmounted.
	Volumes []VolumeState
	// Err is the error of a context that ended the wait. It is nil if no operation made progress.
	Err error
}

// Error lists each volume with the reason and the time of the next attempt.
func (e *NotReadyError) Error() string {
	texts := make([]string, len(e.Volumes))
	for i, v := range e.Volumes {
		texts[i] = v.String()
	}
	text := fmt.Sprintf("pod %s: cannot %s volumes yet: %s", e.Pod, e.Action, strings.Join(texts, "; "))
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// EventMessage returns the message of the Kubernetes event for the error, with upstream's text for
// each failed operation: "MountVolume.SetUp failed for volume "data" : no such share". It is equal
// for repeated failures, so that their events are counted.
func (e *NotReadyError) EventMessage() string {
	texts := make([]string, len(e.Volumes))
	for i, v := range e.Volumes {
		switch {
		case v.LastError != nil:
			texts[i] = failure(v.failed, v.Block, cmp.Or(v.spec, v.Name), v.LastError)
		case v.WaitsFor != "":
			texts[i] = fmt.Sprintf("volume %q waits for %s", v.Name, v.WaitsFor)
		case v.Operation != "":
			texts[i] = fmt.Sprintf("volume %q: %s is still running", v.Name, v.Operation)
		default:
			texts[i] = fmt.Sprintf("cannot %s volume %q yet", e.Action, v.Name)
		}
	}
	return strings.Join(texts, "; ")
}

// failure returns upstream's text for a failed operation on a volume with the given name of its
// spec. Without an operation the volume's claim or source could not be resolved.
func failure(k kind, block bool, name string, err error) string {
	if k == doNothing {
		return fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=[%s], unattached volumes=[], failed to process volumes=[%[1]s]: %[2]v", name, err)
	}
	return fmt.Sprintf("%s failed for volume %q : %v", k.step(block), name, err)
}

// Unwrap returns Err and the errors of the volumes.
func (e *NotReadyError) Unwrap() (errs []error) {
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	for _, v := range e.Volumes {
		if v.LastError != nil {
			errs = append(errs, v.LastError)
		}
	}
	return errs
}

// NotBefore returns the time of the first next attempt, or zero if no attempt is scheduled. It
// implements podworkers.Backoff.
func (e *NotReadyError) NotBefore() (first time.Time) {
	for _, v := range e.Volumes {
		if at := v.NextTry; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// EventReason returns the reason of the Kubernetes event for the error: the result of the first
// EventReason method among the volumes' errors, or a reason for the failed action.
func (e *NotReadyError) EventReason() string {
	if e.Action == "unmount" {
		return reasonFailedUnmount
	}
	block := len(e.Volumes) > 0
	for _, v := range e.Volumes {
		var own interface{ EventReason() string }
		if errors.As(v.LastError, &own) {
			return own.EventReason()
		}
		block = block && v.Block
	}
	if block {
		return reasonFailedMapVolume
	}
	return reasonFailedMount
}
