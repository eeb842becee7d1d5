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

// volumeKinds are the volumes that a static pod may have here, those of objects and of CSI
// drivers if a folder has what they refer to. Claims need an API server.
var volumeKinds = []string{"configMap", "csi", "downwardAPI", "emptyDir", "hostPath", "image", "nfs", "projected", "secret"}

// volumes mounts the pods' volumes, and parts of them.
type volumes struct {
	manager  *manager.Manager
	subPaths *subpath.SubPaths
	drivers  *csi.Registry
	ask      func(ctx context.Context, dir string) (usage.Usage, bool, error) // usage.Config.Ask
}

// run mounts, unmounts and lets drivers register until ctx ends.
func (v volumes) run(ctx context.Context) error { return run.All(ctx, v.manager.Run, v.drivers.Run) }

func newVolumes(in *inputs) (v volumes, err error) {
	cfg, layout, kernel := in.cfg, volume.Layout{Root: in.folders.root}, &mounts.Kernel{}
	if v.subPaths, err = subpath.New(subpath.Config{Layout: layout, Mounts: kernel}); err != nil {
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
	v.ask = csiPlugin.Usage
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

// selinuxLabels returns the SELinux labels for files, nil if the node has no SELinux. Plugins of
// kubelets, in their containers, may use the folders that are made for them.
func selinuxLabels(log *slog.Logger, folders folders, enabled bool, etc fs.FS) manager.SELinux {
	if !enabled {
		return nil
	}
	for _, dir := range []string{folders.shared(), folders.plugins()} {
		if err := errors.Join(os.MkdirAll(dir, private), selinux.Label(dir, selinux.PluginsLabel)); err != nil {
			log.Warn("plugins may not be allowed to use their folder", "err", err)
		}
	}
	host, err := selinux.Read(etc)
	if err != nil {
		log.Warn("no volume is mounted with an SELinux label", "err", err)
		return nil
	}
	return host
}

// warnOfSwap tells that volumes in memory may end up on a disk.
func warnOfSwap(ctx context.Context, cfg *Config, recorder recorder, kernel mounts.Mounter) {
	onDisk, err := emptydir.MayBeOnDisk(ctx, kernel, cfg.Flags.RootDir)
	switch {
	case err != nil:
		cfg.Logger.Warn("cannot tell whether volumes in memory stay there", "err", err)
	case onDisk:
		recorder.ofNode(v1.EventTypeWarning, emptydir.ReasonOnDisk,
			"swap is on, and this kernel cannot keep volumes in memory out of it")
	}
}

// folder returns the path of a mounted volume with files. It returns false for folders of the machine,
// which a PersistentVolume may be too, so that the agent does not walk them.
func (v volumes) folder(ctx context.Context, folders folders, pod *v1.Pod, name string) (string, bool) {
	mounted, err := v.manager.Volume(ctx, pod, name)
	return mounted.Path, err == nil && folders.ofPod(pod.UID, mounted.Path)
}

// inUse returns the names of the volumes in use, and nil while they are unknown.
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

// cleaner has what no pod uses taken back once all sources have been read.
func (v volumes) cleaner(complete func() bool) syncloop.Cleaner {
	var once sync.Once
	return syncloop.Cleaner{Name: "volumes", Clean: func(context.Context, *syncloop.Cleanup) error {
		if complete() {
			once.Do(v.manager.Wake)
		}
		return nil
	}}
}

// volumePlugins are the plugins besides CSI, whether or not a static pod may have such a
// volume: what an agent before this one has mounted must be known to be unmounted.
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

// track has the file system count what is in volumes, if that is asked for.
func track(cfg *Config) func(ctx context.Context, dir string) error {
	if !cfg.Enabled(config.FSQuotaMonitoring) {
		return nil
	}
	return new(usage.Projects).Track
}

func plugin[P volume.Plugin](p P, err error) (volume.Plugin, error) { return p, err }
