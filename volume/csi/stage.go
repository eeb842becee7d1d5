package csi

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/blockdev"
)

// VolumeID implements volume.Stager: it is the driver's name and the volume's handle,
// with a "^" between them; empty for a volume that a pod describes itself.
func (p *Plugin) VolumeID(spec *volume.Spec) string {
	if spec.Persistent == nil {
		return ""
	}
	return p.dataOf(spec, "").id()
}

// VolumeIDOf implements volume.Owner. Where vol_data.json says nothing, the volume is the
// one that is staged for the PersistentVolume of the folder's name, if any is: one that
// cannot be read keeps no other from being unstaged. It is an error only if what is staged
// does not say for which PersistentVolume, as that of other kubelets.
func (p *Plugin) VolumeIDOf(dir string) (string, error) {
	name := filepath.Base(dir)
	if filepath.Base(filepath.Dir(filepath.Dir(dir))) == "volumeDevices" {
		if d := p.read(p.blockData(name)); d != nil {
			return d.id(), nil
		}
		return "", nil // what is staged has the same file: nobody can unstage that either
	}
	d, err := readData(dir)
	if err == nil {
		return d.id(), nil
	}
	if errors.Is(err, iofs.ErrNotExist) {
		if _, mount := os.Lstat(filepath.Join(dir, "mount")); errors.Is(mount, iofs.ErrNotExist) {
			return "", nil // the agent was killed before the driver was asked for anything
		}
	}
	all, listed := p.stagedVolumes()
	unnamed := slices.ContainsFunc(all, func(d *data) bool { return d.SpecVolID == "" })
	i := slices.IndexFunc(all, func(d *data) bool { return d.SpecVolID == name })
	switch {
	case i >= 0:
		return all[i].id(), nil
	case listed != nil || unnamed:
		return "", fmt.Errorf("csi: %w", run.Join(err, listed))
	}
	return "", nil
}

// staged is where a volume that pods share is on the disk.
type staged struct{ data, path string }

// files tells that it has files, and is no device.
func (s staged) files() bool { return filepath.Dir(s.path) == s.data }

func (p *Plugin) stagedOf(spec *volume.Spec) staged {
	if spec.Block() {
		return p.stagedDevice(spec.Name)
	}
	return p.stagedFiles(spec.Persistent.Spec.CSI.Driver, spec.Persistent.Spec.CSI.VolumeHandle)
}

func (p *Plugin) stagedDevice(name string) staged {
	return staged{p.blockData(name), p.devices("staging", name)}
}

func (p *Plugin) stagedFiles(driver, handle string) staged {
	dir := p.shared(driver, handle)
	return staged{dir, filepath.Join(dir, "globalmount")}
}

// Stage implements volume.Stager. Of a driver that does not stage it asks nothing.
func (p *Plugin) Stage(ctx context.Context, s volume.Stage) (string, error) {
	if err := checkSpec(s.Spec); err != nil {
		return "", err
	}
	l, err := p.lookUp(ctx, s.Spec, nil)
	if err != nil {
		return "", volume.Transient(err)
	}
	at := p.stagedOf(s.Spec)
	r, err := p.stageRequest(ctx, s, &l, at.path)
	if err != nil {
		return "", volume.Transient(err)
	}
	if err := l.data.write(at.data); err != nil {
		return "", volume.Uncertain(fmt.Errorf("csi: %w", err))
	}
	// What is staged already may be on a server that does not answer: the path itself is
	// not looked at.
	if err := os.MkdirAll(filepath.Dir(at.path), folderMode); err != nil {
		return "", volume.Uncertain(fmt.Errorf("csi: %w", err))
	}
	if err := os.Mkdir(at.path, folderMode); err != nil && !errors.Is(err, iofs.ErrExist) {
		return "", volume.Uncertain(fmt.Errorf("csi: %w", err))
	}
	if !l.can.Stage {
		return at.path, nil
	}
	err = p.call(ctx, l.data.DriverName, "NodeStageVolume", func(ctx context.Context) error { return l.driver.Stage(ctx, r) })
	if err != nil {
		return "", p.failed(ctx, err, at.path, s.Found, func() error { return p.removeStaged(at) })
	}
	return at.path, nil
}

// Unstage implements volume.Stager.
func (p *Plugin) Unstage(ctx context.Context, id string) error {
	name, handle, ok := strings.Cut(id, "^")
	if !ok {
		return fmt.Errorf("csi: %q is no ID of a CSI volume", id)
	}
	all := []staged{p.stagedFiles(name, handle)}
	devices, err := p.stagedDevices()
	if err != nil {
		return fmt.Errorf("csi: %w", err)
	}
	for _, device := range devices {
		if device.id == id {
			all = append(all, p.stagedDevice(device.name))
		}
	}
	for _, at := range all {
		if err := p.unstage(ctx, at, name, handle); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plugin) unstage(ctx context.Context, at staged, name, handle string) error {
	if _, err := os.Lstat(filepath.Join(at.data, dataFile)); errors.Is(err, iofs.ErrNotExist) {
		return p.removeUnstaged(ctx, at, name) // the driver was not asked for anything
	}
	driver, err := p.driver(name)
	if err != nil {
		return err
	}
	can, err := p.capabilities(ctx, name, driver)
	if err != nil {
		return err
	}
	if err := p.unpublishLeft(ctx, at, driver, name, handle); err != nil {
		return err
	}
	if can.Stage {
		err := p.call(ctx, name, "NodeUnstageVolume", func(ctx context.Context) error { return driver.Unstage(ctx, handle, at.path) })
		if err != nil {
			return err
		}
	}
	return p.removeUnstaged(ctx, at, name)
}

// unpublishLeft unpublishes a device from pods that have no link to it: nobody uses it,
// and an upstream kubelet that was killed has left that.
func (p *Plugin) unpublishLeft(ctx context.Context, at staged, driver Driver, name, handle string) error {
	if at.files() {
		return nil
	}
	device := filepath.Base(at.path)
	pods, err := list(p.devices("publish", device))
	if err != nil {
		return fmt.Errorf("csi: %w", err)
	}
	for _, pod := range pods {
		target := p.devices("publish", device, pod)
		if err := p.letGo(ctx, target); err != nil {
			return err
		}
		if err := p.call(ctx, name, "NodeUnpublishVolume", func(ctx context.Context) error { return driver.Unpublish(ctx, handle, target) }); err != nil {
			return err
		}
		err := p.calls.Do(ctx, "remove folders of", target, func() error {
			return errors.Join(removeTarget(target), blockdev.Unlink(p.devices(device, "dev", pod)))
		})
		if err != nil {
			return fmt.Errorf("csi: driver %s says that the volume is unpublished: %w", name, err)
		}
	}
	return nil
}

func (p *Plugin) removeUnstaged(ctx context.Context, at staged, driver string) error {
	err := p.calls.Do(ctx, "remove folders of", at.path, func() error { return p.removeStaged(at) })
	if err != nil {
		return fmt.Errorf("csi: driver %s says that the volume is unstaged: %w", driver, err)
	}
	return nil
}

// removeStaged removes the folders of a volume that is not staged any more.
func (p *Plugin) removeStaged(at staged) error {
	if err := removeTarget(at.path); err != nil {
		return err
	}
	if at.files() {
		return removeData(at.data)
	}
	name := filepath.Base(at.path)
	for _, folder := range []string{p.devices("publish", name), p.devices(name, "dev")} {
		if err := fs.RemoveOne(folder); err != nil {
			return err
		}
	}
	if err := removeData(at.data); err != nil {
		return err
	}
	return fs.RemoveOne(filepath.Dir(at.data))
}

// stagedDevice is a device that is staged.
type stagedDevice struct{ id, name string }

func (p *Plugin) stagedDevices() (out []stagedDevice, err error) {
	names, err := list(p.devices())
	for _, name := range names {
		if name == "staging" || name == "publish" {
			continue
		}
		if d := p.read(p.blockData(name)); d != nil {
			out = append(out, stagedDevice{d.id(), name})
		}
	}
	return out, err
}

// read reads vol_data.json. One that says nothing holds nobody up: it is logged.
func (p *Plugin) read(dir string) *data {
	d, err := readData(dir)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		p.cfg.Logger.Warn("a staged CSI volume is left as it is", "err", err)
	}
	return d
}

// list names what is in a folder, which need not be there.
func list(dir string) (names []string, err error) {
	entries, err := fs.List(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// Staged implements volume.Stager. What cannot be read is not named: nobody could unstage
// it. What can be read is named beside an error.
func (p *Plugin) Staged(context.Context) (ids []string, err error) {
	devices, err := p.stagedDevices()
	if err != nil {
		return nil, fmt.Errorf("csi: %w", err)
	}
	for _, device := range devices {
		ids = append(ids, device.id)
	}
	volumes, err := p.stagedVolumes()
	for _, d := range volumes {
		ids = append(ids, d.id())
	}
	if err != nil {
		err = fmt.Errorf("csi: %w", err)
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// stagedVolumes are the volumes with files that are staged, as far as they can be read.
func (p *Plugin) stagedVolumes() (out []*data, err error) {
	root := p.cfg.Layout.Plugin(Name)
	drivers, err := list(root)
	for _, driver := range drivers {
		if driver == "volumeDevices" {
			continue
		}
		names, failed := list(filepath.Join(root, driver))
		err = run.Join(err, failed)
		for _, name := range names {
			dir := filepath.Join(root, driver, name)
			if d := p.read(dir); d != nil && p.shared(d.DriverName, d.VolumeHandle) == dir {
				out = append(out, d)
			}
		}
	}
	return out, err
}
