//go:build !linux

package blockdev

import (
	"context"
	"errors"

	"github.com/podwright/podwright/volume/mounts"
)

// FormatAndMount cannot mount here.
func FormatAndMount(context.Context, mounts.Mounter, string, string, string, []string) error {
	return errors.ErrUnsupported
}

// Unmount has nothing to unmount here.
func Unmount(context.Context, mounts.Mounter, string) error { return nil }

// Hold cannot hold a device here.
func Hold(string) (loop string, err error) { return "", errors.ErrUnsupported }

// Holder finds nothing here.
func Holder(string) (string, error) { return "", nil }

// Release has nothing to release here.
func Release(string) error { return nil }

// Link makes no links to devices here.
func Link(string, string) error { return errors.ErrUnsupported }

// Unlink has nothing to remove here.
func Unlink(string) error { return nil }
