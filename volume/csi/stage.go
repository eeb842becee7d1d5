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
	"github.com/podwright/podwright/volume/internal/blockdev"
)

// VolumeID implements volume.Stager. It returns the driver's name and the volume's handle,
// separated by "^", or "" for an inline volume.
func (p *Plugin) VolumeID(spec *volume.Spec) string {
	if spec.Persistent == nil {
		return ""
	}
	return p.dataOf(spec, "").id()
}

// VolumeIDOf implements volume.Identifier. If vol_data.json is invalid, it returns the id of the
// volume that is staged for the PersistentVolume with the folder's name, or "". It fails only
// if a staged volume lacks the name of its PersistentVolume, as volumes of other kubelets do,
// or if staged volumes cannot be listed. An unreadable volume therefore does not prevent the
// unstage of others.
func (p *Plugin) VolumeIDOf(dir string) (string, error) {
	name := filepath.Base(dir)
	if filepath.Base(filepath.Dir(filepath.Dir(dir))) == "volumeDevices" {
		if d := p.read(p.blockData(name)); d != nil {
			return d.id(), nil
		}
		return "", nil // the staged device has the same file, so it cannot be unstaged either
	}
	d, err := readData(dir)
	if err == nil {
		return d.id(), nil
	}
	if errors.Is(err, iofs.ErrNotExist) {
		if _, mount := os.Lstat(filepath.Join(dir, "mount")); errors.Is(mount, iofs.ErrNotExist) {
			return "", nil // the agent was killed before the first call of the driver
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

type staged struct{ data, path string }

// files reports whether the volume has files, in contrast to a device.
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

// Stage implements volume.Stager. It does not call the driver if the driver lacks
// Capabilities.Stage.
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
	// A staged path may be on an unreachable server, so only its parent is checked.
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
		return fmt.Errorf("csi: volume ID %q: must have the form DRIVER^HANDLE", id)
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
		return p.removeUnstaged(ctx, at, name) // the driver was not called
	}
	driver, err := p.driver(name)
	if err != nil {
		return err
	}
	can, err := p.capabilities(ctx, name, driver)
	if err != nil {
		return err
	}
	if err := p.unpublishOrphans(ctx, at, driver, name, handle); err != nil {
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

// unpublishOrphans unpublishes a device for pods without a link to it. An upstream kubelet that
// was killed during an unmount leaves such devices, and no pod uses them.
func (p *Plugin) unpublishOrphans(ctx context.Context, at staged, driver Driver, name, handle string) error {
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
		if err := p.releaseDevice(ctx, target); err != nil {
			return err
		}
		if err := p.call(ctx, name, "NodeUnpublishVolume", func(ctx context.Context) error { return driver.Unpublish(ctx, handle, target) }); err != nil {
			return err
		}
		err := p.calls.Do(ctx, "remove folders of", target, func() error {
			return errors.Join(removeTarget(target), blockdev.Unlink(p.devices(device, "dev", pod)))
		})
		if err != nil {
			return fmt.Errorf("csi: driver %s unpublished the volume, but its folders remain: %w", name, err)
		}
	}
	return nil
}

func (p *Plugin) removeUnstaged(ctx context.Context, at staged, driver string) error {
	err := p.calls.Do(ctx, "remove folders of", at.path, func() error { return p.removeStaged(at) })
	if err != nil {
		return fmt.Errorf("csi: driver %s unstaged the volume, but its folders remain: %w", driver, err)
	}
	return nil
}

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

// read reads vol_data.json. It returns nil for an invalid file and logs the error.
func (p *Plugin) read(dir string) *data {
	d, err := readData(dir)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		p.cfg.Logger.Warn("Staged CSI volume ignored", "err", err)
	}
	return d
}

func list(dir string) (names []string, err error) {
	entries, err := fs.List(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// Staged implements volume.Stager. It omits volumes with an unreadable vol_data.json, because
// they cannot be unstaged. It can return ids together with an error.
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

// stagedVolumes returns the staged volumes with files and a valid vol_data.json.
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
