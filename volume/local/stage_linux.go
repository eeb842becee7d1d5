package local

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/internal/blockdev"
)

// VolumeID implements volume.Stager. It returns the name of the PersistentVolume.
func (p *Plugin) VolumeID(spec *volume.Spec) string { return spec.Name }

// VolumeIDOf implements volume.Identifier.
func (p *Plugin) VolumeIDOf(dir string) (string, error) { return filepath.Base(dir), nil }

func (p *Plugin) mountOf(id string) string {
	return filepath.Join(p.cfg.Layout.Plugin(name), "mounts", id)
}

func (p *Plugin) linkOf(id string) string {
	return filepath.Join(p.cfg.Layout.Plugin(name), "volumeDevices", id, "device")
}

// Stage implements volume.Stager.
func (p *Plugin) Stage(ctx context.Context, s volume.Stage) (staged string, err error) {
	path, err := pathOf(s.Spec)
	if err != nil {
		return "", err
	}
	if err := check(s.ID); err != nil {
		return "", err
	}
	var info iofs.FileInfo
	err = p.calls.Do(ctx, "check local volume", path, func() (err error) {
		info, err = os.Stat(path)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("local: path: %w", err) // unmarked, so final: no stage exists
	}
	device := info.Mode()&iofs.ModeDevice != 0 && info.Mode()&iofs.ModeCharDevice == 0
	switch {
	case s.Spec.Block() && device:
		return path, volume.Uncertain(wrap(p.hold(ctx, path, s.ID)))
	case s.Spec.Block():
		return "", fmt.Errorf("local: path: %s is not a block device, which volumeMode Block requires", path)
	case info.IsDir():
		// The empty folder makes Staged list the volume.
		return path, volume.Uncertain(wrap(os.MkdirAll(p.mountOf(s.ID), 0o750)))
	case device:
		err := p.calls.Do(ctx, "stage local volume", path, func() error { return p.stageDevice(ctx, path, s) })
		return p.mountOf(s.ID), volume.Uncertain(wrap(err))
	}
	return "", fmt.Errorf("local: path: %s is neither a folder nor a block device", path)
}

// stageDevice mounts the device. The caller serializes calls per device, because several
// volumes may use one device.
func (p *Plugin) stageDevice(ctx context.Context, device string, s volume.Stage) error {
	fsType := ""
	if t := s.Spec.Persistent.Spec.Local.FSType; t != nil {
		fsType = *t
	}
	options := slices.Clone(s.Spec.MountOptions())
	return blockdev.FormatAndMount(ctx, p.cfg.Mounts, device, p.mountOf(s.ID), fsType, options)
}

// hold records the device in a link before it holds the device, so that Unstage finds the
// device.
func (p *Plugin) hold(ctx context.Context, device, id string) error {
	link := p.linkOf(id)
	if err := os.MkdirAll(filepath.Dir(link), 0o750); err != nil {
		return err
	}
	if err := blockdev.Link(device, link); err != nil {
		return err
	}
	return p.calls.Do(ctx, "hold", device, func() error {
		_, err := blockdev.Hold(device)
		return err
	})
}

// Unstage implements volume.Stager.
func (p *Plugin) Unstage(ctx context.Context, id string) error {
	if err := check(id); err != nil {
		return err
	}
	if err := blockdev.Unmount(ctx, p.cfg.Mounts, p.mountOf(id)); err != nil {
		return wrap(err)
	}
	link := p.linkOf(id)
	device, err := os.Readlink(link)
	if err == nil {
		err = p.calls.Do(ctx, "release", device, func() error { return blockdev.Release(device) })
	}
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return wrap(err)
	}
	if err := blockdev.Unlink(link); err != nil {
		return wrap(err)
	}
	return wrap(fs.RemoveOne(filepath.Dir(link)))
}

// Staged implements volume.Stager.
func (p *Plugin) Staged(context.Context) (ids []string, err error) {
	for _, dir := range []string{filepath.Dir(p.mountOf("x")), filepath.Dir(filepath.Dir(p.linkOf("x")))} {
		entries, err := fs.List(dir)
		if err != nil {
			return nil, wrap(err)
		}
		for _, e := range entries {
			ids = append(ids, e.Name())
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func check(id string) error { return fs.CheckName("local: the volume's name", id) }
