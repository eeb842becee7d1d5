//go:build !linux

package logs

import (
	"errors"
	"fmt"
)

// Inotify opens an inotify instance. It fails on systems other than Linux.
func Inotify() (Notifier, error) {
	return nil, fmt.Errorf("inotify: %w", errors.ErrUnsupported)
}
