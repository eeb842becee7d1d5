package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrExecTimeout is returned by ExecSync for a command that exceeded its timeout. A RuntimeClient
// also returns it if the runtime does not reply within the timeout and the client's own. If the
// caller's deadline expires first, the error is context.DeadlineExceeded only. ErrExecTimeout
// matches that, too.
var ErrExecTimeout error = execTimeout{}

type execTimeout struct{}

func (execTimeout) Error() string        { return "command timed out" }
func (execTimeout) Is(target error) bool { return target == context.DeadlineExceeded }

// ErrReplyTooLarge is the cause of a call whose reply exceeds the client's limits (16 MiB, and
// 40,000 entries of a list). The same call will fail again. Calls about a single object, filtered lists and, up
// to 32 MiB, ClientConfig.StreamLists still work.
var ErrReplyTooLarge = errors.New("reply exceeds 16 MiB")

// maxEntries is the maximum number of entries in a list. In 16 MiB, entries of a kubelet's containers
// are fewer.
const maxEntries = 40_000

var errTooManyEntries = fmt.Errorf("reply exceeds %d entries", maxEntries)

// ErrRequestTooLarge is the cause of a call whose request exceeds the runtime's limit, usually 16
// MiB. The runtime did not process it, and the same call will fail again.
var ErrRequestTooLarge = errors.New("request exceeds the runtime's size limit")

// ErrClosed is the cause of a call that Close prevented or interrupted.
var ErrClosed = errors.New("client is closed")

// ExitError is returned by ExecSync for a command that exited with a nonzero code.
type ExitError struct {
	Code int32
	// Stdout and Stderr are the command's output.
	Stdout, Stderr []byte
}

// Error returns a text with the exit code.
func (e *ExitError) Error() string { return fmt.Sprintf("command exited with code %d", e.Code) }

// ExitCode returns Code.
func (e *ExitError) ExitCode() int { return int(e.Code) }

// ReplyError is the cause of a call whose reply violates the CRI, such as a created container
// without an ID.
type ReplyError struct {
	// Call is the name of the call, such as "CreateContainer".
	Call string
	// Field is the path of the field in the protobuf definition.
	Field string
	// Problem describes the violation.
	Problem string
}

// Error returns field and problem. The enclosing CallError contains the call.
func (e *ReplyError) Error() string { return fmt.Sprintf("invalid reply: %s %s", e.Field, e.Problem) }

// CallError is the error of every failed client call. It contains the endpoint and the call, and
// unwraps to the cause:
//
//   - status.Code, IsNotFound and IsUnimplemented work on it. Message returns the runtime's own
//     text, without the additions of this package.
//   - errors.Is finds context.Canceled only if the caller's context was cancelled, never because a
//     runtime returned that code. It finds context.DeadlineExceeded if any deadline expired: the
//     caller's, the client's (then Timeout is set), or the runtime's.
//   - errors.Is finds ErrExecTimeout, ErrReplyTooLarge, ErrRequestTooLarge and ErrClosed, and
//     errors.As a *ReplyError. While a runtime is unreachable, errors.Is finds the system's error,
//     such as fs.ErrNotExist for a missing socket.
type CallError struct {
	// Service is "runtime" or "image".
	Service string
	// Endpoint is the endpoint as a URL.
	Endpoint string
	// Call is the name of the call, such as "RunPodSandbox".
	Call string
	// Object is the object of the call, from the request: the ID of a container or else of a
	// sandbox, an image, or the namespace and name of a pod to start. It is "" for calls without
	// an object.
	Object string
	// Timeout is the client's deadline if it ended the call, else zero.
	Timeout time.Duration
	// Err is the failure: a gRPC status error or a *ReplyError.
	Err error

	note   string
	causes []error
}

// Error returns a text with service, endpoint, call, object and cause.
func (e *CallError) Error() string {
	text := e.Err.Error()
	if s, ok := status.FromError(e.Err); ok {
		text = s.Message()
		if s.Code() != codes.Unknown {
			text = s.Code().String() + ": " + text
		}
	}
	if e.note != "" {
		text = e.note + ": " + text
	}
	call := e.Call
	if e.Object != "" {
		call += " " + e.Object
	}
	return fmt.Sprintf("%s %s: %s: %s", e.Service, e.Endpoint, call, text)
}

// Unwrap returns the failure and its causes.
func (e *CallError) Unwrap() []error { return append([]error{e.Err}, e.causes...) }

// GRPCStatus returns the status of the call. Its code is Unknown for a *ReplyError.
func (e *CallError) GRPCStatus() *status.Status { return status.Convert(e.Err) }

// Message returns at most 4 KiB of the runtime's own text. Runtimes put well-known names such as
// RegistryUnavailable at its beginning.
func (e *CallError) Message() string { return e.GRPCStatus().Message() }

// because adds causes and sets the text that Error inserts for them.
func (e *CallError) because(note string, causes ...error) {
	e.note = note
	e.causes = append(e.causes, causes...)
}

// IsNotFound reports whether err, wrapped or not, has the gRPC code NotFound: a sandbox, container
// or image does not exist.
func IsNotFound(err error) bool { return hasCode(err, codes.NotFound) }

// IsUnimplemented reports whether err, wrapped or not, means that the runtime lacks the call.
func IsUnimplemented(err error) bool { return hasCode(err, codes.Unimplemented) }

func hasCode(err error, code codes.Code) bool {
	return err != nil && status.Code(err) == code
}

// circumstances is the context of a failed call. explain derives the cause from it.
type circumstances struct {
	caller  error         // of the caller's context
	reason  error         // cause of the caller's context
	own     error         // of the context with the client's deadline
	timeout time.Duration // the client's deadline
	closed  bool          // the client is closed
	dial    error         // error of the last attempt to connect
	exec    bool          // an expired deadline belongs to the command
	request int           // size in bytes
}

// explain adds the causes that follow from c.
func (e *CallError) explain(c circumstances) {
	code := status.Code(e.Err)
	ended := code == codes.Canceled || code == codes.DeadlineExceeded
	switch {
	case c.closed && (code == codes.Canceled || code == codes.Unavailable) && c.caller == nil:
		e.because(ErrClosed.Error(), ErrClosed)
	case ended && c.caller != nil:
		e.because("", c.caller)
		if c.reason != nil && !errors.Is(c.caller, c.reason) {
			e.because(c.reason.Error(), c.reason)
		}
	case code == codes.DeadlineExceeded && c.own != nil:
		e.Timeout = c.timeout
		e.because(fmt.Sprintf("no reply within %v", c.timeout), context.DeadlineExceeded)
	case code == codes.DeadlineExceeded:
		e.because("", context.DeadlineExceeded)
	case strings.HasSuffix(status.Convert(e.Err).Message(), errTooManyEntries.Error()):
		e.because("", ErrReplyTooLarge)
	case code == codes.ResourceExhausted:
		if cause := tooLarge(e.Err, c.request); cause != nil {
			e.because(cause.Error(), cause)
		}
	}
	// gRPC cancels dials itself. Such an error is no cause, and does not mean that the caller
	// cancelled.
	if c.dial != nil && !errors.Is(c.dial, context.Canceled) && (code == codes.Unavailable || code == codes.DeadlineExceeded) {
		e.because(e.note, c.dial)
	}
	if c.exec && code == codes.DeadlineExceeded && c.caller == nil {
		e.because(strings.TrimSuffix(ErrExecTimeout.Error()+": "+e.note, ": "), ErrExecTimeout)
	}
}

// tooLarge returns ErrReplyTooLarge or ErrRequestTooLarge if err comes from a size limit of gRPC,
// else nil. The code alone is ambiguous: it also means other shortages. Client and runtime use the
// same text for messages that they refuse to receive, so the size in the text decides. A message
// too large to send is the runtime's reply, because the client has no limit for sending. Not every
// gRPC version prefixes these texts with its name.
func tooLarge(err error, request int) error {
	text := strings.TrimPrefix(status.Convert(err).Message(), "grpc: ")
	switch {
	case strings.HasPrefix(text, "trying to send message larger than max"):
		return ErrReplyTooLarge
	case !strings.HasPrefix(text, "received message larger than max"):
		return nil
	case strings.Contains(text, fmt.Sprintf("(%d vs. ", request)):
		return ErrRequestTooLarge
	default:
		return ErrReplyTooLarge
	}
}
