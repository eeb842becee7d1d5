package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/csi"
	"github.com/podwright/podwright/examples/kubelet/selinux"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/volume"
	volumecsi "github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/emptydir"
	"github.com/podwright/podwright/volume/hostpath"
	"github.com/podwright/podwright/volume/local"
	"github.com/podwright/podwright/volume/manager"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/nfs"
	"github.com/podwright/podwright/volume/projected"
	"github.com/podwright/podwright/volume/subpath"
	"github.com/podwright/podwright/volume/usage"
)

// volumeKinds are the kinds of volumes that a static pod may have. Kinds that use objects or CSI
// drivers need a folder of objects; claims need an API server.
var volumeKinds = []string{"configMap", "csi", "downwardAPI", "emptyDir", "hostPath", "image", "nfs", "projected", "secret"}

type volumes struct {
	manager  *manager.Manager
	subPaths *subpath.SubPaths
	drivers  *csi.Registry
	csiUsage func(ctx context.Context, dir string) (usage.Usage, bool, error) // usage.Config.Ask
}

func (v volumes) run(ctx context.Context) error { return run.All(ctx, v.manager.Run, v.drivers.Run) }

func newVolumes(in *inputs) (v volumes, err error) {
	cfg, layout, kernel := in.cfg, volume.Layout{Root: in.folders.root}, &mounts.Kernel{}
	created := func(s volume.SubPath) { v.manager.SubPathCreated(s) }
	if v.subPaths, err = subpath.New(subpath.Config{Layout: layout, Mounts: kernel, OnCreated: created}); err != nil {
		return v, err
	}
	drivers, err := newDrivers(cfg, in.folders, in.cluster, func(string) { v.manager.Retry(volumecsi.Name) })
	if err != nil {
		return v, err
	}
	v.drivers = drivers
	csiPlugin, err := newCSI(cfg, in.cluster, layout, kernel, drivers, in.references)
	if err != nil {
		return v, err
	}
	v.csiUsage = csiPlugin.Usage
	plugins, err := volumePlugins(in, layout, kernel)
	if err != nil {
		return v, err
	}
	managed, err := in.cluster.claimed(manager.Config{
		Plugins:  append(plugins, csiPlugin),
		Layout:   layout,
		SubPaths: v.subPaths,
		SELinux:  selinuxLabels(cfg.Logger, in.folders, selinux.Enabled(selinux.Mounted), os.DirFS("/etc/selinux")),
		Complete: in.sources.merger.Ready,
		OnReady: func(uid types.UID) {
			in.dirty.Emit(syncloop.Event{Kind: syncloop.PodDirty, UID: uid})
		},
		Metrics:         cfg.Metrics.Volumes.Callbacks(),
		ShutdownTimeout: cfg.ShutdownTimeout,
		Event:           in.recorder.event,
		Logger:          cfg.Logger,
	})
	if err != nil {
		return v, err
	}
	v.manager, err = manager.New(managed)
	return v, err
}

// selinuxLabels returns the SELinux labels for files, or nil if the node has no SELinux. It creates
// and labels the folders of plugins, so that plugins in containers may use them.
func selinuxLabels(log *slog.Logger, folders folders, enabled bool, etc fs.FS) manager.SELinux {
	if !enabled {
		return nil
	}
	for _, dir := range []string{folders.shared(), folders.plugins()} {
		if err := errors.Join(os.MkdirAll(dir, private), selinux.Label(dir, selinux.PluginsLabel)); err != nil {
			log.Warn("cannot label a folder of plugins; SELinux may deny plugins access to it", "err", err)
		}
	}
	host, err := selinux.Read(etc)
	if err != nil {
		log.Warn("cannot read the SELinux policy; volumes are mounted without an SELinux label", "err", err)
		return nil
	}
	return host
}

// warnOfSwap records an event if volumes in memory may be swapped to a disk.
func warnOfSwap(ctx context.Context, cfg *Config, recorder recorder, kernel mounts.Mounter) {
	onDisk, err := emptydir.MayBeOnDisk(ctx, kernel, cfg.Flags.RootDir)
	switch {
	case err != nil:
		cfg.Logger.Warn("cannot determine whether volumes in memory may be swapped to the disk", "err", err)
	case onDisk:
		recorder.ofNode(v1.EventTypeWarning, emptydir.ReasonOnDisk,
			"The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) "+
				"might be swapped to disk and should no longer be considered secure.")
	}
}

// folder returns the path of a mounted volume with files. It returns false for folders of the
// machine, which a PersistentVolume may be, so that the agent does not walk them.
func (v volumes) folder(ctx context.Context, folders folders, pod *v1.Pod, name string) (string, bool) {
	mounted, err := v.manager.Volume(ctx, pod, name)
	return mounted.Path, err == nil && folders.ofPod(pod.UID, mounted.Path)
}

// inUse returns the names of the volumes in use, or nil while they are unknown.
func (v volumes) inUse() []v1.UniqueVolumeName {
	names, known := v.manager.InUse()
	if !known {
		return nil
	}
	out := make([]v1.UniqueVolumeName, 0, len(names))
	for _, name := range names {
		out = append(out, v1.UniqueVolumeName(name))
	}
	return out
}

// cleaner wakes the volume manager once all sources have been read, so that it unmounts volumes
// without a pod.
func (v volumes) cleaner(complete func() bool) syncloop.Cleaner {
	var once sync.Once
	return syncloop.Cleaner{Name: "volumes", Clean: func(context.Context, *syncloop.Cleanup) error {
		if complete() {
			once.Do(v.manager.Wake)
		}
		return nil
	}}
}

// volumePlugins returns the plugins besides CSI. It includes kinds that static pods cannot have,
// because the agent must be able to unmount the volumes of an earlier agent.
func volumePlugins(in *inputs, layout volume.Layout, kernel mounts.Mounter) ([]volume.Plugin, error) {
	cfg, from := in.cfg, in.references
	onDisk := emptydir.New(emptydir.Config{
		Mounts: kernel, Allocatable: func() int64 { list := in.machine.forPods(); return list.Memory().Value() }, Track: track(cfg), Logger: cfg.Logger,
	})
	files, err := projected.New(projected.Config{
		Backing: onDisk, ConfigMaps: from, Secrets: from, TrustBundles: from, Tokens: from, Allocatable: in.machine.forPods, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	plugins, errs := append(files, onDisk, &hostpath.Plugin{}, nfs.New(nfs.Config{Mounts: kernel})), []error(nil)
	add := func(p volume.Plugin, err error) { plugins, errs = append(plugins, p), append(errs, err) }
	add(plugin(local.New(local.Config{Layout: layout, Mounts: kernel, Event: in.recorder.event, Logger: cfg.Logger})))
	return plugins, errors.Join(errs...)
}

// track returns a function that lets the file system count the usage of volumes (project quotas),
// or nil if that is disabled.
func track(cfg *Config) func(ctx context.Context, dir string) error {
	if !cfg.Enabled(config.FSQuotaMonitoring) {
		return nil
	}
	return new(usage.Projects).Track
}

func plugin[P volume.Plugin](p P, err error) (volume.Plugin, error) { return p, err }
