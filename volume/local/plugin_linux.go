package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/internal/blockdev"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/ownership"
)

// name is the plugin's name.
const name = "kubernetes.io/local-volume"

// Config configures a Plugin. Layout is required.
type Config struct {
	// Layout maps volumes to paths. Its Root must be absolute.
	Layout volume.Layout
	// Mounts mounts volumes. Default: a mounts.Kernel.
	Mounts mounts.Mounter
	// Event is called for Kubernetes events about a pod: Warning AlreadyMountedVolume if a
	// pod's fsGroup is not applied because another pod uses the volume with a different group.
	// Optional.
	Event podwright.EventFunc
	// Logger receives failures that do not fail the mount. Optional: without it they are
	// discarded.
	Logger *slog.Logger
}

// Plugin implements volume.Plugin for local volumes. Create it with New. It is safe for
// concurrent use.
type Plugin struct {
	cfg   Config
	calls run.Calls
}

var (
	_ volume.Plugin     = (*Plugin)(nil)
	_ volume.Stager     = (*Plugin)(nil)
	_ volume.Identifier = (*Plugin)(nil)
)

// New checks the configuration and returns a Plugin.
func New(cfg Config) (*Plugin, error) {
	if err := cfg.Layout.Check("local: Config.Layout"); err != nil {
		return nil, err
	}
	fields.Default[mounts.Mounter](&cfg.Mounts, &mounts.Kernel{})
	fields.Default(&cfg.Event, func(v1.ObjectReference, string, string, string) {})
	fields.Logger(&cfg.Logger)
	return &Plugin{cfg: cfg}, nil
}

// Name implements volume.Plugin.
func (p *Plugin) Name() string { return name }

// Supports implements volume.Plugin.
func (p *Plugin) Supports(spec *volume.Spec) bool {
	return spec.Persistent != nil && spec.Persistent.Spec.Local != nil
}

// Mount implements volume.Plugin.
func (p *Plugin) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	path, err := pathOf(m.Spec)
	if err != nil {
		return volume.Mounted{}, err
	}
	if m.Spec.Block() {
		if err := blockdev.Link(m.Staged, m.Dir); err != nil {
			return volume.Mounted{}, volume.Uncertain(fmt.Errorf("local: %w", err))
		}
		return volume.Mounted{Device: m.Dir, ReadOnly: m.Spec.ReadOnly}, nil
	}
	out := volume.Mounted{Path: m.Dir, ReadOnly: m.Spec.ReadOnly, Relabel: !m.Spec.ReadOnly}
	err = p.calls.Do(ctx, "mount local volume", path, func() error { return p.mount(ctx, m) })
	return out, volume.Uncertain(wrap(err))
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("local: %w", err)
}

func pathOf(spec *volume.Spec) (string, error) {
	path := spec.Persistent.Spec.Local.Path
	if !filepath.IsAbs(path) || slices.Contains(strings.Split(path, "/"), "..") {
		return "", fmt.Errorf("local: path: %q is not absolute, or has \"..\" in it", path)
	}
	return filepath.Clean(path), nil
}

func (p *Plugin) mount(ctx context.Context, m volume.Mount) error {
	if err := os.Mkdir(m.Dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	is, mounted, err := p.cfg.Mounts.At(ctx, m.Dir)
	if err != nil {
		return err
	}
	if mounted && m.Spec.ReadOnly && !is.ReadOnly && !m.Again {
		// An agent that mounts read-only in two steps was killed between them.
		if err := p.cfg.Mounts.Unmount(ctx, m.Dir); err != nil {
			return err
		}
		mounted = false
	}
	if !mounted {
		options := append([]string{"bind"}, m.Spec.MountOptions()...)
		if m.Spec.ReadOnly {
			options = append(options, "ro")
		}
		if err := p.cfg.Mounts.Mount(ctx, mounts.Mount{Source: m.Staged, Target: m.Dir, Options: options}); err != nil {
			return err
		}
	}
	if m.FSGroup == nil || m.Spec.ReadOnly {
		return nil
	}
	return p.setGroup(ctx, m)
}

// setGroup gives the volume to the pod's fsGroup, unless another pod uses the volume.
func (p *Plugin) setGroup(ctx context.Context, m volume.Mount) error {
	shared, err := p.shared(ctx, m)
	if err != nil {
		return err
	}
	if shared {
		info, err := os.Stat(m.Dir)
		if err != nil {
			return err
		}
		if is, ok := info.Sys().(*syscall.Stat_t); ok && int64(is.Gid) != *m.FSGroup {
			p.cfg.Event(podfacts.Reference(m.Pod), v1.EventTypeWarning, "AlreadyMountedVolume", fmt.Sprintf(
				"The requested fsGroup is %d, but the volume %s has GID %d. The volume may not be shareable.", *m.FSGroup, m.Spec.Name, is.Gid))
		}
		return nil
	}
	result, err := ownership.Apply(ctx, m.Dir, ownership.Config{Group: *m.FSGroup, Policy: m.FSGroupPolicy, OnProgress: m.OnProgress})
	if ctx.Err() != nil {
		return err
	}
	if err := run.Join(err, result.Err); err != nil {
		p.cfg.Logger.Warn("fsGroup not applied to all files of the volume", "volume", m.Dir, "err", err)
	}
	return nil
}

// shared reports whether the volume is also mounted for another pod.
func (p *Plugin) shared(ctx context.Context, m volume.Mount) (bool, error) {
	pods, err := os.ReadDir(filepath.Join(p.cfg.Layout.Root, "pods"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, pod := range pods {
		dir := filepath.Join(p.cfg.Layout.Root, "pods", pod.Name(), "volumes", volume.Escape(name), filepath.Base(m.Dir))
		if dir == m.Dir {
			continue
		}
		_, mounted, err := p.cfg.Mounts.At(ctx, dir)
		if mounted || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return mounted, err
		}
	}
	return false, nil
}

// Unmount implements volume.Plugin.
func (p *Plugin) Unmount(ctx context.Context, u volume.Unmount) error {
	if u.Block {
		return wrap(blockdev.Unlink(u.Dir))
	}
	return wrap(blockdev.Unmount(ctx, p.cfg.Mounts, u.Dir))
}
