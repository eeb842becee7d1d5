package stages

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

// Errors to test for.
var (
	// ErrUnresponsive is wrapped by the error of a step that has not returned after its context
	// was done, and by errors of steps that it blocks.
	ErrUnresponsive = errors.New("the step does not return")
	// ErrAlreadyRun is returned by a second Run.
	ErrAlreadyRun = fields.AlreadyRun("stages")
	// ErrShutdownTimeout is wrapped by the error of Run and Wait when steps were still running
	// after their context was done. The error lists them.
	ErrShutdownTimeout = run.ErrShutdownTimeout

	errGoexit = errors.New("the stage called runtime.Goexit")
)

// StepError is the failure of a stage for a pod. It wraps the stage's error.
type StepError struct {
	Stage  string
	Action Action
	UID    types.UID
	Err    error
}

// Error returns the pod, the stage and the stage's error.
func (e *StepError) Error() string {
	return fmt.Sprintf("pod %s: %s %s: %v", e.UID, e.Action, e.Stage, e.Err)
}

// Unwrap returns the stage's error.
func (e *StepError) Unwrap() error { return e.Err }
