package run

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrShutdownTimeout is the ErrShutdownTimeout of all packages, so that one errors.Is finds it in
// the joined errors of an agent's parts.
var ErrShutdownTimeout = errors.New("still running after the shutdown timeout")

// StillRunning returns an error that wraps ErrShutdownTimeout and lists the names, or nil without
// names.
func StillRunning(place string, limit time.Duration, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w (%v): %s", place, ErrShutdownTimeout, limit, strings.Join(names, ", "))
}
