package images

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/status"
)

// The reasons of an Error, which become a container's waiting reason.
const (
	ReasonInvalidImageName          = "InvalidImageName"
	ReasonImageInspectError         = "ImageInspectError"
	ReasonErrImageNeverPull         = "ErrImageNeverPull"
	ReasonErrImagePull              = "ErrImagePull"
	ReasonImagePullBackOff          = "ImagePullBackOff"
	ReasonRegistryUnavailable       = "RegistryUnavailable"
	ReasonSignatureValidationFailed = "SignatureValidationFailed"
)

// ErrThrottled is the cause of a pull that exceeded Config.QPS and Burst.
var ErrThrottled = errors.New("pull QPS exceeded")

// Error is the reason an image is not available.
type Error struct {
	// Reason is the waiting reason: one of the Reason constants.
	Reason string
	// Message is a text for people, without the reason.
	Message string
	// Err is the cause, or nil. For ImagePullBackOff it is the failure of the last pull.
	Err error

	notBefore time.Time
}

// Error returns reason and message.
func (e *Error) Error() string { return e.Reason + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// NotBefore returns the time of the next useful try. For ImagePullBackOff it is the end of the
// back-off. For a failed pull it is one second later: that try does not pull, but returns
// ImagePullBackOff. It is zero for failures that do not depend on time.
func (e *Error) NotBefore() time.Time { return e.notBefore }

// pullReason returns the reason of a failed pull: the runtime's own reason if its text begins with
// one, else ErrImagePull. errs are the failures of all tries.
func pullReason(errs []error) string {
	for _, reason := range []string{ReasonRegistryUnavailable, ReasonSignatureValidationFailed} {
		for _, err := range errs {
			if strings.HasPrefix(runtimeText(err), reason) {
				return reason
			}
		}
	}
	return ReasonErrImagePull
}

// pullMessage returns the message of a failed pull. For a reason of the runtime, at the beginning
// of text, it is a sentence.
func pullMessage(reason, image, text string) string {
	_, detail, found := strings.Cut(text, reason)
	switch {
	case !found:
		return text
	case reason == ReasonRegistryUnavailable:
		return fmt.Sprintf("image pull failed for %s because the registry is unavailable%s", image, detail)
	case reason == ReasonSignatureValidationFailed:
		return fmt.Sprintf("image pull failed for %s because the signature validation failed%s", image, detail)
	}
	return text
}

// runtimeText returns the runtime's own text, without a gRPC code and the text of wrapping errors.
func runtimeText(err error) string {
	var withStatus interface{ GRPCStatus() *status.Status }
	if errors.As(err, &withStatus) {
		return withStatus.GRPCStatus().Message()
	}
	return err.Error()
}
