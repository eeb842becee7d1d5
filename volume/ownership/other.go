//go:build !linux

package ownership

import (
	"context"
	"errors"
)

// Chown returns errors.ErrUnsupported on this system.
func Chown(int, string, int, int) error { return errors.ErrUnsupported }

// Apply returns errors.ErrUnsupported on this system.
func Apply(context.Context, string, Config) (Result, error) { return Result{}, errors.ErrUnsupported }

// ApplyFile returns errors.ErrUnsupported on this system.
func ApplyFile(string, Config) error { return errors.ErrUnsupported }
