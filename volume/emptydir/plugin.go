package emptydir

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/ownership"
)

// name is the plugin's name.
const name = "kubernetes.io/empty-dir"

// Config configures a Plugin. The zero value is valid.
type Config struct {
	// Mounts mounts volumes. Default: a mounts.Kernel.
	Mounts mounts.Mounter
	// Allocatable returns the memory for pods on this node in bytes. It bounds the size of
	// volumes in memory. A result of zero or less means no limit. Optional: without it there is
	// no limit.
	Allocatable func() int64
	// Track makes the file system count the content of a folder (usage.Projects). It is called
	// for each folder on the disk whose pod has its own user namespace, before containers use
	// it. Its errors are logged only. Optional: without it folders are not counted.
	Track func(ctx context.Context, dir string) error
	// Logger receives failures that do not fail a call, such as a failed change of a file's
	// group. Optional: without it they are discarded.
	Logger *slog.Logger
}

// Plugin implements volume.Plugin for emptyDir volumes. Create it with New. It is safe for
// concurrent use.
type Plugin struct{ cfg Config }

var _ volume.Plugin = (*Plugin)(nil)

// New returns a Plugin.
func New(cfg Config) *Plugin {
	fields.Default[mounts.Mounter](&cfg.Mounts, &mounts.Kernel{})
	fields.Default(&cfg.Allocatable, func() int64 { return 0 })
	fields.Logger(&cfg.Logger)
	return &Plugin{cfg}
}

// Name implements volume.Plugin.
func (p *Plugin) Name() string { return name }

// Supports implements volume.Plugin.
func (p *Plugin) Supports(spec *volume.Spec) bool {
	return spec.Inline != nil && spec.Inline.EmptyDir != nil
}

// Mount implements volume.Plugin.
func (p *Plugin) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	f, err := p.folder(m)
	if err != nil {
		return volume.Mounted{}, fmt.Errorf("emptyDir: %w", err)
	}
	if err := f.prepare(ctx, p.cfg.Mounts); err != nil {
		return volume.Mounted{}, volume.Uncertain(fmt.Errorf("emptyDir: %w", err))
	}
	p.track(ctx, f, m.Pod)
	if m.FSGroup != nil {
		result, err := ownership.Apply(ctx, m.Dir, ownership.Config{Group: *m.FSGroup, Policy: m.FSGroupPolicy, OnProgress: m.OnProgress})
		if ctx.Err() != nil {
			return volume.Mounted{}, volume.Uncertain(fmt.Errorf("emptyDir: fsGroup: %w", cmp.Or(err, run.EndOf(ctx))))
		}
		if err := run.Join(err, result.Err); err != nil {
			p.cfg.Logger.Warn("fsGroup not applied to all files of the volume", "volume", m.Dir, "err", err)
		}
	}
	return volume.Mounted{Path: m.Dir, Relabel: m.SELinuxLabel == ""}, nil
}

func (p *Plugin) track(ctx context.Context, f folder, pod *v1.Pod) {
	if p.cfg.Track == nil || f.fsType() != "" || pod == nil || pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return
	}
	if err := p.cfg.Track(ctx, f.dir); err != nil {
		p.cfg.Logger.Debug("File system does not track the usage of the volume", "volume", f.dir, "err", err)
	}
}

func (p *Plugin) folder(m volume.Mount) (folder, error) {
	f := folder{dir: m.Dir, marker: m.StateDir, label: m.SELinuxLabel}
	if m.SizeLimit < 0 {
		return f, fmt.Errorf("sizeLimit: %d bytes: must not be below zero", m.SizeLimit)
	}
	var err error
	switch medium := m.Spec.Inline.EmptyDir.Medium; {
	case medium == v1.StorageMediumDefault:
	case medium == v1.StorageMediumMemory:
		f.memory, f.size = true, p.size(m.SizeLimit)
	case medium == v1.StorageMediumHugePages, strings.HasPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix)):
		f.pageSize, err = pageSize(m.Pod, medium)
	default:
		err = fmt.Errorf("medium: %q is unknown", medium)
	}
	return f, err
}

// size returns the limit of a volume in memory: the smaller of limit and the node's allocatable
// memory, or zero without a limit.
func (p *Plugin) size(limit int64) int64 {
	node := p.cfg.Allocatable()
	if limit == 0 || node > 0 && node < limit {
		return max(node, 0)
	}
	return limit
}

// Unmount implements volume.Plugin.
func (p *Plugin) Unmount(ctx context.Context, u volume.Unmount) error {
	if err := remove(ctx, p.cfg.Mounts, u.Dir, u.StateDir); err != nil {
		return fmt.Errorf("emptyDir: %w", err)
	}
	return nil
}
