package hostpath

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

// Name is the plugin's name.
const Name = "kubernetes.io/host-path"

// Plugin is the volume.Plugin for hostPath volumes, in a pod or as a PersistentVolume.
// The zero value is ready for use; it is safe for concurrent use and not copied.
type Plugin struct{ calls run.Calls }

var _ volume.Plugin = (*Plugin)(nil)

// Name implements volume.Plugin.
func (p *Plugin) Name() string { return Name }

// Supports implements volume.Plugin.
func (p *Plugin) Supports(spec *volume.Spec) bool { return sourceOf(spec) != nil }

func sourceOf(spec *volume.Spec) *v1.HostPathVolumeSource {
	if spec.Persistent != nil {
		return spec.Persistent.Spec.HostPath
	}
	return spec.Inline.HostPath
}

// Mount implements volume.Plugin: it checks the path and may make it. A path on a server
// that does not answer holds back nobody longer than the context.
func (p *Plugin) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	source := sourceOf(m.Spec)
	var path string
	err := p.calls.Do(ctx, "check host path", source.Path, func() (err error) {
		path, err = Prepare(source)
		return err
	})
	if err != nil {
		return volume.Mounted{}, volume.AtField("hostPath", err) // final: nothing is mounted
	}
	return volume.Mounted{Path: path, ReadOnly: m.Spec.ReadOnly}, nil
}

// Unmount implements volume.Plugin: what is the node's stays.
func (p *Plugin) Unmount(context.Context, volume.Unmount) error { return nil }
