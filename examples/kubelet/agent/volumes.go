package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/csi"
	"github.com/podwright/podwright/examples/kubelet/selinux"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/podworkers"
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

func (g *ground) newVolumes(from named) (v volumes, err error) {
	layout, kernel := volume.Layout{Root: g.folders.root}, &mounts.Kernel{}
	if v.subPaths, err = subpath.New(subpath.Config{Layout: layout, Mounts: kernel}); err != nil {
		return v, err
	}
	drivers, err := g.newDrivers(func(string) { v.manager.TryAgain(volumecsi.Name) })
	if err != nil {
		return v, err
	}
	v.drivers = drivers
	plugins, err := g.volumePlugins(layout, kernel, drivers, from)
	if err != nil {
		return v, err
	}
	for _, p := range plugins {
		if drivers, ok := p.(*volumecsi.Plugin); ok {
			v.ask = drivers.Usage
		}
	}
	labels := g.labels(selinux.Enabled(selinux.Mounted), os.DirFS("/etc/selinux"))
	cfg, err := g.claimed(manager.Config{
		Plugins:  plugins,
		Layout:   layout,
		SubPaths: v.subPaths,
		SELinux:  labels,
		Complete: g.merger.Ready,
		OnReady: func(uid types.UID) {
			g.dirty.Emit(syncloop.Event{Kind: syncloop.PodDirty, UID: uid})
		},
		Metrics:         g.cfg.Metrics.Volumes.Callbacks(),
		ShutdownTimeout: g.cfg.ShutdownTimeout,
		Event:           g.event,
		Logger:          g.cfg.Logger,
	})
	if err != nil {
		return v, err
	}
	v.manager, err = manager.New(cfg)
	return v, err
}

// labels are those that the node gives to files, nil if it has no SELinux. Plugins of
// kubelets, in their containers, may use the folders that are made for them.
func (g *ground) labels(enabled bool, etc fs.FS) manager.SELinux {
	if !enabled {
		return nil
	}
	for _, dir := range []string{g.folders.shared(), g.folders.plugins()} {
		if err := errors.Join(os.MkdirAll(dir, private), selinux.Label(dir, selinux.PluginsLabel)); err != nil {
			g.cfg.Logger.Warn("plugins may not be allowed to use their folder", "err", err)
		}
	}
	host, err := selinux.Read(etc)
	if err != nil {
		g.cfg.Logger.Warn("no volume is mounted with an SELinux label", "err", err)
		return nil
	}
	return host
}

// warnOfSwap tells that volumes in memory may end up on a disk.
func (g *ground) warnOfSwap(ctx context.Context, kernel mounts.Mounter) {
	onDisk, err := emptydir.MayBeOnDisk(ctx, kernel, g.folders.root)
	switch {
	case err != nil:
		g.cfg.Logger.Warn("cannot tell whether volumes in memory stay there", "err", err)
	case onDisk:
		g.event(nodeReference(g.cfg.Flags.NodeName), v1.EventTypeWarning, emptydir.ReasonOnDisk,
			"swap is on, and this kernel cannot keep volumes in memory out of it")
	}
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

// leftovers are the pods of which nothing is known but that they have volumes: an agent
// before this one has not got rid of these, or they are about to go.
func (n *node) leftovers() (out []server.PodReport) {
	for _, uid := range n.volumes.manager.Pods() {
		if n.workers.State(uid).State != podworkers.StateUnknown || n.statuses.Get(uid) != nil {
			continue
		}
		r := server.PodReport{UID: string(uid), Worker: "none", WaitsFor: "its volumes to be unmounted"}
		for _, v := range n.volumes.manager.Explain(uid) {
			r.Volumes = append(r.Volumes, volumeReport(v))
		}
		if len(r.Volumes) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// volumePlugins are all that there are, whether or not a static pod may have such a
// volume: what an agent before this one has mounted must be known to be unmounted.
func (g *ground) volumePlugins(layout volume.Layout, kernel mounts.Mounter, drivers volumecsi.Drivers, from named) ([]volume.Plugin, error) {
	onDisk := emptydir.New(emptydir.Config{
		Mounts: kernel, Allocatable: func() int64 { list := g.forPods(); return list.Memory().Value() }, Track: g.track(), Logger: g.cfg.Logger,
	})
	files, err := projected.New(projected.Config{
		Backing: onDisk, ConfigMaps: from, Secrets: from, TrustBundles: from, Tokens: from, Allocatable: g.forPods, Logger: g.cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	plugins, errs := append(files, onDisk, &hostpath.Plugin{}), []error(nil)
	add := func(p volume.Plugin, err error) { plugins, errs = append(plugins, p), append(errs, err) }
	add(plugin(nfs.New(nfs.Config{Mounts: kernel})))
	add(plugin(local.New(local.Config{Layout: layout, Mounts: kernel, Event: g.event, Logger: g.cfg.Logger})))
	add(plugin(g.newCSI(layout, drivers, from)))
	return plugins, errors.Join(errs...)
}

// track has the file system count what is in volumes, if that is asked for.
func (g *ground) track() func(ctx context.Context, dir string) error {
	if !g.cfg.Enabled(config.FSQuotaMonitoring) {
		return nil
	}
	return new(usage.Projects).Track
}

func plugin[P volume.Plugin](p P, err error) (volume.Plugin, error) { return p, err }
