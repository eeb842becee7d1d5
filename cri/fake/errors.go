package fake

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callError is an error with a gRPC status and a cause, so that status.Code and errors.Is both work
// on it.
type callError struct {
	code  codes.Code
	text  string
	cause error
}

func (e *callError) Error() string              { return e.text }
func (e *callError) Unwrap() error              { return e.cause }
func (e *callError) GRPCStatus() *status.Status { return status.New(e.code, e.text) }

// contextError wraps the error of an ended context with the code of a gRPC server.
func contextError(err error) error {
	code := codes.Canceled
	if errors.Is(err, context.DeadlineExceeded) {
		code = codes.DeadlineExceeded
	}
	return &callError{code: code, text: err.Error(), cause: err}
}

// noSandbox and noContainer are the errors for unknown IDs. An empty ID is a mistake of the caller,
// who must not confuse it with a removed object.
func noSandbox(id string) error {
	if id == "" {
		return status.Error(codes.InvalidArgument, "an error occurred when try to find sandbox: the ID is empty")
	}
	return status.Errorf(codes.NotFound, "an error occurred when try to find sandbox %q: not found", id)
}

func noContainer(id string) error {
	if id == "" {
		return status.Error(codes.InvalidArgument, "an error occurred when try to find container: the ID is empty")
	}
	return status.Errorf(codes.NotFound, "an error occurred when try to find container %q: not found", id)
}

// removedUnknown is the result of removing an unknown object: nil, unless the ID is empty.
func removedUnknown(id string, missing func(string) error) error {
	if id == "" {
		return missing(id)
	}
	return nil
}

func unimplemented(call string) error {
	return status.Errorf(codes.Unimplemented, "method %s not implemented", call)
}
