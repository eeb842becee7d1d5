package hostpath

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

// name is the plugin's name.
const name = "kubernetes.io/host-path"

// Plugin implements volume.Plugin for hostPath volumes, inline or as a PersistentVolume. The
// zero value is ready for use. A Plugin is safe for concurrent use and must not be copied after
// first use.
type Plugin struct{ calls run.Calls }

var _ volume.Plugin = (*Plugin)(nil)

// Name implements volume.Plugin.
func (p *Plugin) Name() string { return name }

// Supports implements volume.Plugin.
func (p *Plugin) Supports(spec *volume.Spec) bool { return sourceOf(spec) != nil }

func sourceOf(spec *volume.Spec) *v1.HostPathVolumeSource {
	if spec.Persistent != nil {
		return spec.Persistent.Spec.HostPath
	}
	return spec.Inline.HostPath
}

// Mount implements volume.Plugin. It checks the path and may create it. If the path is on an
// unreachable server, Mount returns when ctx ends.
func (p *Plugin) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	source := sourceOf(m.Spec)
	var path string
	err := p.calls.Do(ctx, "check host path", source.Path, func() (err error) {
		path, err = Prepare(source)
		return err
	})
	if err != nil {
		return volume.Mounted{}, volume.AtField("hostPath", err) // unmarked, so final: there is no mount
	}
	return volume.Mounted{Path: path, ReadOnly: m.Spec.ReadOnly}, nil
}

// Unmount implements volume.Plugin. The path stays, because it belongs to the node.
func (p *Plugin) Unmount(context.Context, volume.Unmount) error { return nil }
