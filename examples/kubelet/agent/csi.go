package agent

import (
	"github.com/podwright/podwright/examples/kubelet/csi"
	"github.com/podwright/podwright/examples/kubelet/selinux"
	"github.com/podwright/podwright/volume"
	volumecsi "github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/mounts"
)

// newDrivers builds the registry of the CSI drivers in the folder of plugins. It calls ready for
// each driver that has registered, and writes the drivers' data about the node to the API server.
func newDrivers(cfg *Config, folders folders, c *cluster, ready func(driver string)) (drivers *csi.Registry, err error) {
	update := func(driver string) {
		if c != nil {
			c.csiNode.Look(driver, drivers)
		}
	}
	drivers, err = csi.NewRegistry(csi.RegistryConfig{
		Folder:          folders.plugins(),
		Watch:           cfg.watchDrivers,
		OnReady:         func(driver string) { update(driver); ready(driver) },
		OnDeregistered:  update,
		Metrics:         cfg.Metrics.Volumes.CSI(),
		ShutdownTimeout: cfg.ShutdownTimeout,
		Logger:          cfg.Logger,
	})
	return drivers, err
}

// newCSI builds the plugin for volumes of these drivers. Without an API server volumes are not
// attached, and CSIDrivers, secrets and tokens come from the folder of objects.
func newCSI(cfg *Config, c *cluster, layout volume.Layout, kernel mounts.Mounter, drivers volumecsi.Drivers, from references) (*volumecsi.Plugin, error) {
	plugin := volumecsi.Config{
		Layout: layout, NodeName: cfg.Flags.NodeName,
		Drivers: drivers, CSIDrivers: from, Secrets: from, Tokens: from, Mounts: kernel,
		SELinux: selinux.Enabled(selinux.Mounted), Metrics: cfg.Metrics.Volumes.CSI(), Logger: cfg.Logger,
	}
	if c != nil {
		plugin.Attachments = c.objects
	}
	return volumecsi.New(plugin)
}
