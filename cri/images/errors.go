package images

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/status"
)

// The reasons of an Error. They become a container's waiting reason.
const (
	ReasonInvalidImageName          = "InvalidImageName"
	ReasonImageInspectError         = "ImageInspectError"
	ReasonErrImageNeverPull         = "ErrImageNeverPull"
	ReasonErrImagePull              = "ErrImagePull"
	ReasonImagePullBackOff          = "ImagePullBackOff"
	ReasonRegistryUnavailable       = "RegistryUnavailable"
	ReasonSignatureValidationFailed = "SignatureValidationFailed"
)

// ErrThrottled is the cause of a pull that failed because pulls begin more
// often than Config.QPS and Burst allow.
var ErrThrottled = errors.New("pull QPS exceeded")

// Error tells why an image is not there.
type Error struct {
	// Reason is the waiting reason: one of the Reason constants.
	Reason string
	// Message is for people. It does not repeat the reason.
	Message string
	// Err is the cause, nil when there is none. For ImagePullBackOff it is the
	// failure of the last pull.
	Err error

	notBefore time.Time
}

// Error joins reason and message.
func (e *Error) Error() string { return e.Reason + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// NotBefore is when the next try makes sense: the end of the backoff, and for the
// failed pull itself a second later, when a try will say ImagePullBackOff. It is
// zero when time has nothing to do with it.
func (e *Error) NotBefore() time.Time { return e.notBefore }

// pullReason names a failed pull: the runtime's own word for it if its text
// begins with one, else ErrImagePull. errs are the failures of all tries.
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

// runtimeText is what the runtime itself said, without a gRPC code and what
// callers wrapped around it.
func runtimeText(err error) string {
	var withStatus interface{ GRPCStatus() *status.Status }
	if errors.As(err, &withStatus) {
		return withStatus.GRPCStatus().Message()
	}
	return err.Error()
}
