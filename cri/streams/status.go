package streams

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrLost is returned when a connection ended before its session.
var ErrLost = errors.New("the connection was lost before the session ended")

// maxStatus bounds the size of a status or an error message, in bytes.
const maxStatus = 64 << 10

// StatusError is the server's error for a session that failed or was refused.
type StatusError struct {
	// Code is an HTTP status: 404 for an unknown or used token, 500 for a failed session.
	Code int
	// Reason is the API machinery's reason, mostly "InternalError".
	Reason string
	// Message is the runtime's error text.
	Message string
}

// Error returns code, reason and message.
func (e *StatusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s: %s", e.Code, e.Reason, e.Message))
}

// HTTPStatus returns Code.
func (e *StatusError) HTTPStatus() int { return e.Code }

// wireStatus is the relevant part of the status document at the end of a session.
type wireStatus struct {
	Status  string `json:"status"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Code    int    `json:"code"`
	Details struct {
		Causes []struct {
			Type    string `json:"reason"`
			Message string `json:"message"`
		} `json:"causes"`
	} `json:"details"`
}

// parseStatus parses the document that ends a session of protocol v4 and later.
func parseStatus(document []byte) (exitCode int, err error) {
	if len(document) == 0 {
		return 0, ErrLost
	}
	var status wireStatus
	if err := json.Unmarshal(document, &status); err != nil {
		return 0, fmt.Errorf("the session's status %q: %w", oneLine(document), err)
	}
	if status.Status == "Success" {
		return 0, nil
	}
	if status.Reason == "NonZeroExitCode" {
		for _, cause := range status.Details.Causes {
			if cause.Type == "ExitCode" {
				code, err := strconv.Atoi(cause.Message)
				if err != nil {
					return 0, fmt.Errorf("the session's exit code: %w", err)
				}
				return code, nil
			}
		}
	}
	return 0, &StatusError{Code: status.Code, Reason: status.Reason, Message: status.Message}
}

func oneLine(text []byte) string { return strings.Join(strings.Fields(string(text)), " ") }
