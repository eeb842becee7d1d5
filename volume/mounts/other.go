//go:build !linux

package mounts

import (
	"context"
	"errors"
)

// Kernel is the Mounter of a Linux node. On this system it cannot mount.
type Kernel struct{}

var _ Mounter = (*Kernel)(nil)

// Hanging returns nil on this system.
func (k *Kernel) Hanging() []string { return nil }

// Mount implements Mounter. It returns errors.ErrUnsupported.
func (k *Kernel) Mount(context.Context, Mount) error { return errors.ErrUnsupported }

// Unmount implements Mounter.
func (k *Kernel) Unmount(context.Context, string) error { return nil }

// Detach implements Mounter.
func (k *Kernel) Detach(context.Context, string) error { return nil }

// At implements Mounter.
func (k *Kernel) At(context.Context, string) (Point, bool, error) { return Point{}, false, nil }

// Below implements Mounter.
func (k *Kernel) Below(context.Context, string) ([]Point, error) { return nil, nil }

// Table returns nil on this system.
func Table(string) ([]Point, error) { return nil, nil }

// TableBelow returns nil on this system.
func TableBelow(string) ([]Point, error) { return nil, nil }
