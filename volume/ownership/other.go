//go:build !linux

package ownership

import (
	"context"
	"errors"
)

// Chown changes owners: not on this system.
func Chown(int, string, int, int) error { return errors.ErrUnsupported }

// Apply gives a folder to a group: not on this system.
func Apply(context.Context, string, Config) (Result, error) { return Result{}, errors.ErrUnsupported }

// One gives one file to a group: not on this system.
func One(string, Config) error { return errors.ErrUnsupported }
