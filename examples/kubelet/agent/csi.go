package agent

import (
	"github.com/podwright/podwright/examples/kubelet/csi"
	"github.com/podwright/podwright/examples/kubelet/selinux"
	"github.com/podwright/podwright/volume"
	volumecsi "github.com/podwright/podwright/volume/csi"
)

// newDrivers knows the CSI drivers that register themselves in the folder of plugins.
// ready is told of each that can be asked, and the API server of what it says of the node.
func (g *ground) newDrivers(ready func(driver string)) (drivers *csi.Registry, err error) {
	look := func(driver string) {
		if g.cluster != nil {
			g.cluster.csiNode.Look(driver, drivers)
		}
	}
	drivers, err = csi.NewRegistry(csi.RegistryConfig{
		Folder:          g.folders.plugins(),
		Watch:           g.watchDrivers,
		OnReady:         func(driver string) { look(driver); ready(driver) },
		OnDeregistered:  look,
		Metrics:         g.cfg.Metrics.Volumes.CSI(),
		ShutdownTimeout: g.cfg.ShutdownTimeout,
		Logger:          g.cfg.Logger,
	})
	return drivers, err
}

// newCSI mounts volumes of these drivers. Without an API server nobody attaches any: what
// is said of drivers, and the secrets and tokens that they get, come from the folder of
// objects.
func (g *ground) newCSI(layout volume.Layout, drivers volumecsi.Drivers, from named) (*volumecsi.Plugin, error) {
	cfg := volumecsi.Config{
		Layout: layout, NodeName: g.cfg.Flags.NodeName,
		Drivers: drivers, CSIDrivers: from, Secrets: from, Tokens: from,
		SELinux: selinux.Enabled(selinux.Mounted), Metrics: g.cfg.Metrics.Volumes.CSI(), Logger: g.cfg.Logger,
	}
	if g.cluster != nil {
		cfg.Attachments = g.cluster.objects
	}
	return volumecsi.New(cfg)
}
