//go:build !linux

package fsgroup

import (
	"context"
	"errors"
)

// Apply gives a folder to a group: not on this system.
func Apply(context.Context, string, Change) error { return errors.ErrUnsupported }
