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
	"time"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/internal/blockdev"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/ownership"
)

// Mount implements volume.Plugin.
func (p *Plugin) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	if err := checkSpec(m.Spec); err != nil {
		return volume.Mounted{}, err
	}
	at := p.pathsOf(m.Dir, m.Spec.Name, m.Pod.UID, m.Spec.Block())
	if m.Again && !p.Remounts(m.Spec) {
		return p.mounted(ctx, m, at, time.Time{}) // an object changed, but the driver does not set requiresRepublish
	}
	l, err := p.lookUp(ctx, m.Spec, m.Pod)
	if err != nil {
		return volume.Mounted{}, volume.Transient(err)
	}
	r, refreshAt, err := p.publishRequest(ctx, m, &l, at.target)
	if err != nil {
		return volume.Mounted{}, volume.Transient(err)
	}
	if err := prepare(at, l.data); err != nil {
		return volume.Mounted{}, volume.Uncertain(fmt.Errorf("csi: %w", err))
	}
	err = p.call(ctx, l.data.DriverName, "NodePublishVolume", func(ctx context.Context) error { return l.driver.Publish(ctx, r) })
	if err != nil {
		return volume.Mounted{}, p.failed(ctx, err, at.target, m.Again || m.Found, func() error { return p.clear(at, m.Spec.Block()) })
	}
	err = p.calls.Do(ctx, "finish volume", m.Dir, func() error { return p.finish(ctx, m, &l, at) })
	if err != nil {
		return volume.Mounted{}, volume.Uncertain(fmt.Errorf("csi: %w", err))
	}
	return p.mounted(ctx, m, at, refreshAt)
}

func (p *Plugin) mounted(ctx context.Context, m volume.Mount, at volumePaths, refreshAt time.Time) (out volume.Mounted, err error) {
	out = volume.Mounted{Path: at.target, ReadOnly: readOnly(m.Spec), RefreshAt: refreshAt}
	switch {
	case m.Spec.Block():
		out.Path, out.Device = "", m.Dir
	case p.cfg.SELinux && m.SELinuxLabel == "" && !out.ReadOnly:
		if out.Relabel, err = p.hasLabels(ctx, at.target); err != nil {
			return volume.Mounted{}, volume.Uncertain(fmt.Errorf("csi: check whether files can have SELinux labels: %w", err))
		}
	}
	return out, nil
}

// hasLabels reports whether files at a path can have their own SELinux labels. That is a
// property of the mount that contains the path.
func (p *Plugin) hasLabels(ctx context.Context, path string) (bool, error) {
	points, err := p.cfg.Mounts.Below(ctx, "/")
	var in mounts.Point
	for _, point := range points { // of several mounts on one path, the last is on top
		if strings.HasPrefix(path+"/", strings.TrimSuffix(point.Path, "/")+"/") && len(point.Path) >= len(in.Path) {
			in = point
		}
	}
	return slices.Contains(strings.Split(in.Options, ","), "seclabel"), err
}

func readOnly(spec *volume.Spec) bool {
	return spec.ReadOnly || spec.Inline != nil && is(spec.Inline.CSI.ReadOnly)
}

// checkSpec returns an error for a spec whose paths or names are invalid.
func checkSpec(spec *volume.Spec) error {
	if spec.Block() && (spec.Name == "staging" || spec.Name == "publish") {
		return fmt.Errorf("csi: device %q: the name is reserved for the folder of all devices", spec.Name)
	}
	return checkDriver(spec)
}

// prepare creates the files that must exist before the driver publishes a volume. The links to
// a device show later agents that it may be published.
func prepare(at volumePaths, d *data) error {
	if err := d.write(at.data); err != nil {
		return err
	}
	for _, path := range []string{at.target, at.global} {
		if path == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), folderMode); err != nil {
			return err
		}
	}
	for _, link := range []string{at.global, at.link} {
		if link == "" {
			continue
		}
		if err := blockdev.Link(at.target, link); err != nil {
			return err
		}
	}
	return nil
}

// failed marks the error of a driver's call. If the call had no effect, failed also removes its
// files with undo, unless the volume may have existed before.
func (p *Plugin) failed(ctx context.Context, err error, path string, before bool, undo func() error) error {
	switch {
	case !errors.Is(err, ErrFinal):
		return volume.Uncertain(err)
	case before:
		return err
	}
	if undone := p.calls.Do(ctx, "remove folders of", path, undo); undone != nil {
		return volume.Uncertain(fmt.Errorf("%w; %w", err, undone))
	}
	return err
}

// finish completes a published volume: it checks the target, holds a device, and sets the group
// of files.
func (p *Plugin) finish(ctx context.Context, m volume.Mount, l *lookups, at volumePaths) error {
	info, err := os.Stat(at.target)
	if errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("driver %s published the volume, but %s does not exist", l.data.DriverName, at.target)
	}
	if err != nil {
		return err
	}
	if m.Spec.Block() {
		if isDevice(info) {
			_, err = blockdev.Hold(at.target)
		}
		return err
	}
	if m.FSGroup == nil || !l.setsGroup(m.Spec) {
		return nil
	}
	_, err = ownership.Apply(ctx, at.target, ownership.Config{
		Group: *m.FSGroup, Policy: m.FSGroupPolicy, OnProgress: m.OnProgress,
		OnError: func(path string, err error) {
			p.cfg.Logger.Warn("fsGroup not applied to a file of the volume", "volume", at.target, "path", path, "err", err)
		},
	})
	return err
}

func isDevice(info iofs.FileInfo) bool {
	return info.Mode()&iofs.ModeDevice != 0 && info.Mode()&iofs.ModeCharDevice == 0
}

// Unmount implements volume.Plugin. All of its parameters for the driver are in vol_data.json.
func (p *Plugin) Unmount(ctx context.Context, u volume.Unmount) error {
	at := p.pathsOf(u.Dir, u.Name, u.Pod, u.Block)
	d, err := readData(at.data)
	switch {
	case errors.Is(err, errData), errors.Is(err, iofs.ErrNotExist):
		return p.unmountByPath(ctx, u, at, err)
	case err != nil:
		return fmt.Errorf("csi: %w", err)
	}
	if u.Block {
		if err := p.releaseDevice(ctx, at.target); err != nil {
			return err
		}
	}
	driver, err := p.driver(d.DriverName)
	if err != nil {
		return err
	}
	err = p.call(ctx, d.DriverName, "NodeUnpublishVolume", func(ctx context.Context) error {
		return driver.Unpublish(ctx, d.VolumeHandle, at.target)
	})
	if err != nil {
		return err
	}
	err = p.calls.Do(ctx, "remove folders of", at.target, func() error { return p.clear(at, u.Block) })
	if err != nil {
		return fmt.Errorf("csi: driver %s unpublished the volume, but its folders remain: %w", d.DriverName, err)
	}
	return nil
}

// unmountByPath unmounts a volume without its driver, because vol_data.json is missing or
// invalid.
func (p *Plugin) unmountByPath(ctx context.Context, u volume.Unmount, at volumePaths, cause error) error {
	if errors.Is(cause, errData) {
		p.cfg.Logger.Warn("Unmounting a CSI volume without its driver", "volume", u.Dir, "err", cause)
	}
	err := p.unmountTarget(ctx, u, at)
	if err != nil {
		return fmt.Errorf("csi: %w; unmount without the driver: %w", cause, err)
	}
	return nil
}

func (p *Plugin) unmountTarget(ctx context.Context, u volume.Unmount, at volumePaths) error {
	if u.Block {
		if err := p.releaseDevice(ctx, at.target); err != nil {
			return err
		}
	}
	if err := mounts.UnmountAll(ctx, p.cfg.Mounts, at.target); err != nil {
		return err
	}
	return p.calls.Do(ctx, "remove folders of", at.target, func() error { return p.clear(at, u.Block) })
}

// releaseDevice releases the loop device that holds a device.
func (p *Plugin) releaseDevice(ctx context.Context, target string) error {
	return p.calls.Do(ctx, "release", target, func() error {
		info, err := os.Stat(target)
		if err != nil || !isDevice(info) {
			return nil
		}
		return blockdev.Release(target)
	})
}

// clear removes the folders of an unpublished volume. The data of a device stays until it is
// unstaged, because other pods may use it; the links to it are removed, the pod's own link
// last.
func (p *Plugin) clear(at volumePaths, block bool) error {
	if err := removeTarget(at.target); err != nil {
		return err
	}
	if !block {
		return removeData(at.data)
	}
	return errors.Join(blockdev.Unlink(at.global), blockdev.Unlink(at.link))
}

// removeTarget removes a path that was given to a driver. It fails if the path has content.
func removeTarget(path string) error {
	info, err := os.Lstat(path)
	if err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		return fmt.Errorf("%s is a file that is not empty", path)
	}
	return fs.RemoveOne(path)
}
