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

// ErrExecTimeout is returned by ExecSync when the command ran out of time. It is
// a context.DeadlineExceeded, too.
var ErrExecTimeout error = execTimeout{}

type execTimeout struct{}

func (execTimeout) Error() string        { return "command timed out" }
func (execTimeout) Is(target error) bool { return target == context.DeadlineExceeded }

// ErrReplyTooLarge is the cause of a call whose reply exceeds the largest
// message that a client receives (16 MiB). The same call will fail again; one
// about a single object, a filtered list or ClientConfig.StreamLists still work.
var ErrReplyTooLarge = errors.New("reply exceeds 16 MiB")

// ErrRequestTooLarge is the cause of a call whose request exceeds the largest
// message that the runtime receives, usually 16 MiB. The runtime has not seen it,
// and the same call will fail again.
var ErrRequestTooLarge = errors.New("request exceeds what the runtime receives")

// ErrClosed is the cause of a call that the client's Close prevented or cut short.
var ErrClosed = errors.New("client is closed")

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

// ExitCode returns Code.
func (e *ExitError) ExitCode() int { return int(e.Code) }

// ReplyError is the cause of a call that the runtime answered with a reply that
// breaks the CRI, such as a created container without an ID.
type ReplyError struct {
	// Call is the name of the call, such as "CreateContainer".
	Call string
	// Field is the offending field of the reply, as in the protobuf definition.
	Field string
	// Problem tells what is wrong with it.
	Problem string
}

// Error names field and problem; the CallError around it names the call.
func (e *ReplyError) Error() string { return fmt.Sprintf("invalid reply: %s %s", e.Field, e.Problem) }

// CallError is what every failed call of a client returns. It names the endpoint
// and the call, and unwraps to what is known about the cause:
//
//   - status.Code, IsNotFound and IsUnimplemented work on it; Message is the
//     runtime's own text, without what this package adds.
//   - errors.Is finds context.Canceled only if the caller's context was
//     cancelled, never because a runtime answered with that code. It finds
//     context.DeadlineExceeded if any deadline ran out: the caller's, the
//     client's (then Timeout is set), or one that the runtime reports.
//   - errors.Is finds ErrExecTimeout, ErrReplyTooLarge, ErrRequestTooLarge and
//     ErrClosed, and errors.As a *ReplyError. While a runtime cannot be reached, errors.Is
//     finds the system's reason, such as fs.ErrNotExist for a missing socket.
type CallError struct {
	// Service is "runtime" or "image".
	Service string
	// Endpoint is the endpoint as a URL.
	Endpoint string
	// Call is the name of the call, such as "RunPodSandbox".
	Call string
	// Object is what the call was about, as the request names it: the ID of a
	// container or else of a sandbox, an image, or the namespace and name of a
	// pod that is to run. "" for calls about nothing in particular.
	Object string
	// Timeout is the client's own deadline if that ended the call, else zero.
	Timeout time.Duration
	// Err is the failure itself: a gRPC status error or a *ReplyError.
	Err error

	note   string
	causes []error
}

// Error names service, endpoint, call and object, then what went wrong.
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

// GRPCStatus returns the status of the call. Its code is Unknown for a reply
// that was refused.
func (e *CallError) GRPCStatus() *status.Status { return status.Convert(e.Err) }

// Message is the runtime's own text. Runtimes put well-known names such as
// RegistryUnavailable at its beginning.
func (e *CallError) Message() string { return e.GRPCStatus().Message() }

// because records a cause and how to put it into words.
func (e *CallError) because(note string, causes ...error) {
	e.note = note
	e.causes = append(e.causes, causes...)
}

// IsNotFound tells whether err says that a sandbox, container or image does not
// exist (gRPC code NotFound), wrapped or not.
func IsNotFound(err error) bool { return hasCode(err, codes.NotFound) }

// IsUnimplemented tells whether err says that the runtime lacks the call.
func IsUnimplemented(err error) bool { return hasCode(err, codes.Unimplemented) }

func hasCode(err error, code codes.Code) bool {
	return err != nil && status.Code(err) == code
}

// circumstances are what is known at the end of a failed call besides its error.
type circumstances struct {
	caller  error         // of the caller's context
	reason  error         // why the caller's context ended
	own     error         // of the context with the client's deadline
	timeout time.Duration // the client's deadline
	closed  bool          // the client is closed
	dial    error         // why the last attempt to connect failed; nil if it did not
	exec    bool          // a deadline that runs out is the command's
	request int           // the request's size in bytes
}

// explain adds to e what the circumstances say about its cause.
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
	case code == codes.ResourceExhausted:
		if cause := tooLarge(e.Err, c.request); cause != nil {
			e.because(cause.Error(), cause)
		}
	}
	// A dial that gRPC itself called off says nothing, least of all that the
	// caller called anything off.
	if c.dial != nil && !errors.Is(c.dial, context.Canceled) && (code == codes.Unavailable || code == codes.DeadlineExceeded) {
		e.because(e.note, c.dial)
	}
	if c.exec && code == codes.DeadlineExceeded {
		e.because(strings.TrimSuffix(ErrExecTimeout.Error()+": "+e.note, ": "), ErrExecTimeout)
	}
}

// tooLarge recognises the message size limits of gRPC, whose code alone also
// stands for other shortages, and tells which of the two messages exceeds one.
// Client and runtime complain in the same words about what they receive, so the
// size that they name decides; what cannot be sent is the runtime's reply, since
// the client sends everything. Not every version of gRPC begins these texts with
// its name.
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
