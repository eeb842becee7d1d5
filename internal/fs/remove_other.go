//go:build !linux

package fs

import (
	"context"
	"errors"
)

// ErrMounted is wrapped by the error of a Remove of a mount point.
var ErrMounted = errors.New("still mounted")

// Remove returns errors.ErrUnsupported: only Linux is supported.
func Remove(context.Context, string) error { return errors.ErrUnsupported }
