package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/blockdev"
	"github.com/podwright/podwright/volume/ownership"
)

// Mount implements volume.Plugin.
func (p *Plugin) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	if err := checkSpec(m.Spec); err != nil {
		return volume.Mounted{}, err
	}
	l, err := p.lookUp(ctx, m.Spec, m.Pod)
	if err != nil {
		return volume.Mounted{}, volume.Transient(err)
	}
	at := p.placeOf(m.Dir, m.Spec.Name, m.Pod.UID, m.Spec.Block())
	r, refreshAt, err := p.publishRequest(ctx, m, &l, at.target)
	if err != nil {
		return volume.Mounted{}, volume.Transient(err)
	}
	if err := prepare(at, l.data); err != nil {
		return volume.Mounted{}, volume.Uncertain(fmt.Errorf("csi: %w", err))
	}
	err = p.call(ctx, "NodePublishVolume", func(ctx context.Context) error { return l.driver.Publish(ctx, r) })
	if err != nil {
		return volume.Mounted{}, p.failed(ctx, err, at.target, m.Again || m.Found, func() error { return p.clear(at, m.Spec.Block()) })
	}
	out := volume.Mounted{Path: at.target, ReadOnly: r.ReadOnly, RefreshAt: refreshAt}
	if m.Spec.Block() {
		out.Path, out.Device = "", m.Dir
	}
	err = p.calls.Do(ctx, "finish volume", m.Dir, func() error { return p.finish(ctx, m, &l, at) })
	if err != nil {
		return volume.Mounted{}, volume.Uncertain(fmt.Errorf("csi: %w", err))
	}
	return out, nil
}

// checkSpec refuses what cannot be on the disk.
func checkSpec(spec *volume.Spec) error {
	if spec.Block() && (spec.Name == "staging" || spec.Name == "publish") {
		return fmt.Errorf("csi: a device cannot be called %q: the folder of that name is for all devices", spec.Name)
	}
	return checkDriver(spec)
}

// prepare makes what has to be there before the driver publishes a volume.
func prepare(at place, d *data) error {
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
	return nil
}

// failed says what has become of a volume of which a call has failed. What was made for
// a call that had no effect is taken away again, but not if something may be there from
// before.
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

// finish does what is left for the agent to do when a volume is published.
func (p *Plugin) finish(ctx context.Context, m volume.Mount, l *lookups, at place) error {
	info, err := os.Stat(at.target)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("driver %s says that the volume is published, and %s does not exist", l.data.DriverName, at.target)
	}
	if err != nil {
		return err
	}
	if m.Spec.Block() {
		if isDevice(info) {
			if _, err := blockdev.Hold(at.target); err != nil {
				return err
			}
		}
		if err := blockdev.Link(at.target, at.global); err != nil {
			return err
		}
		return blockdev.Link(at.target, at.link)
	}
	if m.FSGroup == nil || !l.owns(m.Spec) || m.Spec.Inline != nil && is(m.Spec.Inline.CSI.ReadOnly) {
		return nil
	}
	_, err = ownership.Apply(ctx, at.target, ownership.Config{
		Group: *m.FSGroup, Policy: m.FSGroupPolicy, OnProgress: m.OnProgress,
		OnError: func(path string, err error) {
			p.cfg.Logger.Warn("fsGroup was not given to a file", "volume", at.target, "path", path, "err", err)
		},
	})
	return err
}

func isDevice(info fs.FileInfo) bool {
	return info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0
}

// Unmount implements volume.Plugin. All that it needs to know is in vol_data.json.
func (p *Plugin) Unmount(ctx context.Context, u volume.Unmount) error {
	at := p.placeOf(u.Dir, u.Name, u.Pod, u.Block)
	d, err := readData(at.data)
	switch {
	case errors.Is(err, errData), errors.Is(err, fs.ErrNotExist):
		return p.unmountByPath(ctx, u, at, err)
	case err != nil:
		return fmt.Errorf("csi: %w", err)
	}
	if u.Block {
		if err := p.letGo(ctx, at); err != nil {
			return err
		}
	}
	driver, err := p.driver(d.DriverName)
	if err != nil {
		return err
	}
	err = p.call(ctx, "NodeUnpublishVolume", func(ctx context.Context) error {
		return driver.Unpublish(ctx, d.VolumeHandle, at.target)
	})
	if err != nil {
		return err
	}
	err = p.calls.Do(ctx, "remove folders of", at.target, func() error { return p.clear(at, u.Block) })
	if err != nil {
		return fmt.Errorf("csi: driver %s says that the volume is unpublished: %w", d.DriverName, err)
	}
	return nil
}

// unmountByPath takes away a volume of which nobody can tell the driver: what is mounted
// is unmounted.
func (p *Plugin) unmountByPath(ctx context.Context, u volume.Unmount, at place, cause error) error {
	if errors.Is(cause, errData) {
		p.cfg.Logger.Warn("a CSI volume is unmounted without its driver", "volume", u.Dir, "err", cause)
	}
	err := p.cutOff(ctx, u, at)
	if err != nil {
		return fmt.Errorf("csi: %w; without its driver: %w", cause, err)
	}
	return nil
}

func (p *Plugin) cutOff(ctx context.Context, u volume.Unmount, at place) error {
	if u.Block {
		if err := p.letGo(ctx, at); err != nil {
			return err
		}
	}
	for {
		_, mounted, err := p.cfg.Mounts.At(ctx, at.target)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !mounted {
			break
		}
		if err := p.cfg.Mounts.Unmount(ctx, at.target); err != nil {
			return err
		}
	}
	return p.calls.Do(ctx, "remove folders of", at.target, func() error { return p.clear(at, u.Block) })
}

// letGo takes away what leads to a device, and what keeps it from going away.
func (p *Plugin) letGo(ctx context.Context, at place) error {
	return p.calls.Do(ctx, "release", at.target, func() error {
		for _, link := range []string{at.link, at.global} {
			if err := blockdev.Unlink(link); err != nil {
				return fmt.Errorf("csi: %w", err)
			}
		}
		info, err := os.Stat(at.target)
		if err != nil || !isDevice(info) {
			return nil
		}
		return blockdev.Release(at.target)
	})
}

// clear removes the folders of a volume that is not published any more. What is known
// about a device stays until it is unstaged: other pods may use it.
func (p *Plugin) clear(at place, block bool) error {
	if err := removeTarget(at.target); err != nil || block {
		return err
	}
	return removeData(at.data)
}

// removeTarget removes a path that was given to a driver, but nothing that has content.
func removeTarget(path string) error {
	info, err := os.Lstat(path)
	if err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		return fmt.Errorf("%s is a file that is not empty", path)
	}
	return remove(path)
}
