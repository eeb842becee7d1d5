package pods

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/pleg/observed"
)

// The reasons of a StartError that this package finds itself. Those of package
// images come on top.
const (
	ReasonCrashLoopBackOff           = "CrashLoopBackOff"
	ReasonCreateContainerConfigError = "CreateContainerConfigError"
	ReasonCreateContainerError       = "CreateContainerError"
	ReasonRunContainerError          = "RunContainerError"
	ReasonPreCreateHookError         = "PreCreateHookError"
	ReasonPreStartHookError          = "PreStartHookError"
	ReasonPostStartHookError         = "PostStartHookError"
)

// StartError tells why a container was not started.
type StartError struct {
	// Container is the container's name.
	Container string
	// Reason becomes the container's waiting reason.
	Reason string
	// Message is for people. It does not repeat the reason.
	Message string
	// Err is the cause, nil when there is none.
	Err error

	notBefore time.Time
	// key is that of the back-off, exit the end after which the container is held back;
	// "" and nil if it is not.
	key  string
	exit *observed.Container
}

// Error names container, reason and message.
func (e *StartError) Error() string {
	return "container " + e.Container + ": " + e.Reason + ": " + e.Message
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// NotBefore is when the next try makes sense: the end of a back-off. It is zero
// when time has nothing to do with it.
func (e *StartError) NotBefore() time.Time { return e.notBefore }

// runtimeText is what the runtime itself said, without a gRPC code and what
// callers wrapped around it.
func runtimeText(err error) string {
	var withStatus interface{ GRPCStatus() *status.Status }
	if errors.As(err, &withStatus) {
		return withStatus.GRPCStatus().Message()
	}
	return err.Error()
}

// withoutID puts the container's name in the place of its ID, so that the same
// trouble with successive instances is the same event.
func withoutID(text, id, name string) string {
	if id == "" {
		return text
	}
	return strings.ReplaceAll(text, id, name)
}
