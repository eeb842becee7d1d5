//go:build !linux

package blockdev

import (
	"context"
	"errors"

	"github.com/podwright/podwright/volume/mounts"
)

// FormatAndMount returns errors.ErrUnsupported on this system.
func FormatAndMount(context.Context, mounts.Mounter, string, string, string, []string) error {
	return errors.ErrUnsupported
}

// Unmount does nothing on this system.
func Unmount(context.Context, mounts.Mounter, string) error { return nil }

// Hold returns errors.ErrUnsupported on this system.
func Hold(string) (loop string, err error) { return "", errors.ErrUnsupported }

// Holder returns "" on this system.
func Holder(string) (string, error) { return "", nil }

// Release does nothing on this system.
func Release(string) error { return nil }

// Link returns errors.ErrUnsupported on this system.
func Link(string, string) error { return errors.ErrUnsupported }

// Unlink does nothing on this system.
func Unlink(string) error { return nil }
