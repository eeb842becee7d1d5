package stages

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
)

// Errors to test for.
var (
	// ErrUnresponsive is wrapped by the error of a step that has not returned although
	// its context has ended, and of those that cannot run because of it.
	ErrUnresponsive = errors.New("the step does not return")
	// ErrAlreadyRun is returned by a second Run.
	ErrAlreadyRun = fields.AlreadyRun("stages")
	// ErrShutdownTimeout is wrapped by the error of Run and Wait when steps ignored
	// that their context has ended. They are named.
	ErrShutdownTimeout = errors.New("still running after the shutdown timeout")

	errGoexit = errors.New("the stage called runtime.Goexit")
)

// StepError is how a stage failed for a pod. It wraps the stage's error.
type StepError struct {
	// Stage is the name of the stage.
	Stage string
	// Action is what it was to do.
	Action Action
	// UID is the pod's.
	UID types.UID
	// Err is what went wrong.
	Err error
}

// Error names the pod, the stage and what went wrong.
func (e *StepError) Error() string {
	return fmt.Sprintf("pod %s: %s %s: %v", e.UID, e.Action, e.Stage, e.Err)
}

// Unwrap returns what went wrong.
func (e *StepError) Unwrap() error { return e.Err }
