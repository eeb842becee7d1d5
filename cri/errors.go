package cri

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrExecTimeout is returned by ExecSync when the command ran out of time.
var ErrExecTimeout = errors.New("command timed out")

// ExitError is returned by ExecSync for a command that ran and exited with a
// code other than zero.
type ExitError struct {
	// Code is the command's exit code.
	Code int32
	// Stdout and Stderr are what the command wrote.
	Stdout, Stderr []byte
}

// Error names the exit code.
func (e *ExitError) Error() string { return fmt.Sprintf("command exited with code %d", e.Code) }

// IsNotFound tells whether err says that a sandbox, container or image does not
// exist (gRPC code NotFound), wrapped or not.
func IsNotFound(err error) bool { return hasCode(err, codes.NotFound) }

// IsUnimplemented tells whether err says that the runtime lacks the call.
func IsUnimplemented(err error) bool { return hasCode(err, codes.Unimplemented) }

func hasCode(err error, code codes.Code) bool {
	return err != nil && status.Code(err) == code
}
