//go:build !unix

package fs

import (
	"errors"
	"os"
)

// TryLock is not supported on this system.
func TryLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }
