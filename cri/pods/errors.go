package pods

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/pleg/observed"
)

// The reasons of StartErrors from this package. Package images has further ones.
const (
	ReasonCrashLoopBackOff           = "CrashLoopBackOff"
	ReasonCreateContainerConfigError = "CreateContainerConfigError"
	ReasonCreateContainerError       = "CreateContainerError"
	ReasonRunContainerError          = "RunContainerError"
	ReasonPreCreateHookError         = "PreCreateHookError"
	ReasonPreStartHookError          = "PreStartHookError"
	ReasonPostStartHookError         = "PostStartHookError"
)

// StartError is the reason a container failed to start.
type StartError struct {
	Container string
	// Reason becomes the container's waiting reason.
	Reason string
	// Message describes the failure without repeating the reason.
	Message string
	// Err is the cause, or nil.
	Err error

	notBefore time.Time
	// key is the back-off's key and exit the exit that caused it. They are empty for other
	// failures.
	key  string
	exit *observed.Container
}

// Error returns the container, reason and message.
func (e *StartError) Error() string {
	return "container " + e.Container + ": " + e.Reason + ": " + e.Message
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// NotBefore returns the end of the back-off, the earliest useful time for the next attempt. It is
// zero if the failure does not depend on time.
func (e *StartError) NotBefore() time.Time { return e.notBefore }

// runtimeText returns the message of the runtime, without the gRPC code and without the text of
// wrapping errors.
func runtimeText(err error) string {
	var withStatus interface{ GRPCStatus() *status.Status }
	if errors.As(err, &withStatus) {
		return withStatus.GRPCStatus().Message()
	}
	return err.Error()
}

// withoutID replaces the container's ID by its name, so that the same failure of successive
// instances is the same event.
func withoutID(text, id, name string) string {
	if id == "" {
		return text
	}
	return strings.ReplaceAll(text, id, name)
}
