// Package testbacking makes the folders of volumes for tests: as the plugin for
// emptyDir volumes does, without mounting anything.
package testbacking

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
)

// Plugin is a volume.Plugin for emptyDir volumes, all of them on disk.
type Plugin struct {
	// Mounts and Unmounts count calls.
	Mounts, Unmounts atomic.Int64
	// Fail, if not nil, is asked before each call for the error that it shall have.
	Fail func(method string) error
	// Medium is that of the last Mount.
	Medium atomic.Value // v1.StorageMedium
}

var _ volume.Plugin = (*Plugin)(nil)

// Name implements volume.Plugin.
func (*Plugin) Name() string { return "kubernetes.io/empty-dir" }

// Supports implements volume.Plugin.
func (*Plugin) Supports(s *volume.Spec) bool { return s.Inline != nil && s.Inline.EmptyDir != nil }

// Mount implements volume.Plugin.
func (p *Plugin) Mount(_ context.Context, m volume.Mount) (volume.Mounted, error) {
	p.Mounts.Add(1)
	p.Medium.Store(m.Spec.Inline.EmptyDir.Medium)
	if err := p.fails("mount"); err != nil {
		return volume.Mounted{}, err
	}
	marker := filepath.Join(m.StateDir, "ready")
	_, noMarker := os.Stat(marker)
	_, noDir := os.Stat(m.Dir)
	if noMarker == nil && noDir == nil {
		return volume.Mounted{Path: m.Dir}, nil
	}
	for dir, mode := range map[string]os.FileMode{m.Dir: 0o777, m.StateDir: 0o750} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return volume.Mounted{}, err
		}
	}
	if err := os.Chmod(m.Dir, 0o777); err != nil {
		return volume.Mounted{}, err
	}
	return volume.Mounted{Path: m.Dir}, os.WriteFile(marker, nil, 0o640)
}

// Unmount implements volume.Plugin.
func (p *Plugin) Unmount(_ context.Context, u volume.Unmount) error {
	p.Unmounts.Add(1)
	if err := p.fails("unmount"); err != nil {
		return err
	}
	if err := os.RemoveAll(u.StateDir); err != nil {
		return err
	}
	return os.RemoveAll(u.Dir)
}

func (p *Plugin) fails(method string) error {
	if p.Fail == nil {
		return nil
	}
	return p.Fail(method)
}

// MediumOfLast is where the last volume was to be.
func (p *Plugin) MediumOfLast() v1.StorageMedium {
	m, _ := p.Medium.Load().(v1.StorageMedium)
	return m
}
