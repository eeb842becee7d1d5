package fake

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callError is an error with a gRPC status that also keeps what it came from,
// so that status.Code and errors.Is both work on it.
type callError struct {
	code  codes.Code
	text  string
	cause error
}

func (e *callError) Error() string              { return e.text }
func (e *callError) Unwrap() error              { return e.cause }
func (e *callError) GRPCStatus() *status.Status { return status.New(e.code, e.text) }

// contextError gives the error of an ended context the code a server would give.
func contextError(err error) error {
	code := codes.Canceled
	if errors.Is(err, context.DeadlineExceeded) {
		code = codes.DeadlineExceeded
	}
	return &callError{code: code, text: err.Error(), cause: err}
}

func noSandbox(id string) error {
	return status.Errorf(codes.NotFound, "an error occurred when try to find sandbox %q: not found", id)
}

func noContainer(id string) error {
	return status.Errorf(codes.NotFound, "an error occurred when try to find container %q: not found", id)
}

func unimplemented(call string) error {
	return status.Errorf(codes.Unimplemented, "method %s not implemented", call)
}

func closedError() error {
	return status.Error(codes.Unavailable, "the runtime has been closed")
}
