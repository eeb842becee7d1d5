//go:build !linux

package fs

import (
	"context"
	"errors"
)

// ErrMounted is wrapped by the error of a Remove of what is mounted.
var ErrMounted = errors.New("something is mounted")

// Remove deletes a path: not on this system.
func Remove(context.Context, string) error { return errors.ErrUnsupported }
