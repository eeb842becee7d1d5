package content

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/required"
	"github.com/podwright/podwright/volume"
)

// Kind is a kind of volume whose content a function collects.
type Kind struct {
	// Name is the plugin's, "kubernetes.io/configmap". Required.
	Name string
	// Takes tells whether a volume is of this kind. Required.
	Takes func(source *v1.VolumeSource) bool
	// Collect returns what a volume shall hold. It is called before anything is mounted:
	// on an error nothing is, and what is mounted stays as it is. Required.
	Collect func(ctx context.Context, m volume.Mount) (Content, error)
	// Objects are those of volume.Dependent; nil means none.
	Objects func(pod *v1.Pod, source *v1.VolumeSource) []volume.Object
}

// Plugin is a volume.Plugin for one Kind. Its volumes are mounted again at each sync of
// their pod, and when one of the objects changes.
type Plugin struct {
	kind    Kind
	volumes *Volumes
}

var (
	_ volume.Plugin    = (*Plugin)(nil)
	_ volume.Remounter = (*Plugin)(nil)
	_ volume.Dependent = (*Plugin)(nil)
)

// NewPlugin returns a Plugin that keeps its volumes with others.
func NewPlugin(volumes *Volumes, kind Kind) (*Plugin, error) {
	for _, f := range []struct {
		field string
		value any
	}{{"volumes", volumes}, {"Kind.Takes", kind.Takes}, {"Kind.Collect", kind.Collect}} {
		if err := required.Field("content: "+f.field, f.value); err != nil {
			return nil, err
		}
	}
	if kind.Name == "" {
		return nil, errors.New("content: Kind.Name is required")
	}
	return &Plugin{kind, volumes}, nil
}

// Name implements volume.Plugin.
func (p *Plugin) Name() string { return p.kind.Name }

// Supports implements volume.Plugin.
func (p *Plugin) Supports(spec *volume.Spec) bool {
	return spec.Inline != nil && p.kind.Takes(spec.Inline)
}

// Remounts implements volume.Remounter.
func (p *Plugin) Remounts(*volume.Spec) bool { return true }

// Objects implements volume.Dependent.
func (p *Plugin) Objects(pod *v1.Pod, spec *volume.Spec) []volume.Object {
	if p.kind.Objects == nil || spec.Inline == nil {
		return nil
	}
	return p.kind.Objects(pod, spec.Inline)
}

// Mount implements volume.Plugin.
func (p *Plugin) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	c, err := p.kind.Collect(ctx, m)
	if err != nil {
		return volume.Mounted{}, volume.Transient(err)
	}
	return p.volumes.Mount(ctx, m, c)
}

// Unmount implements volume.Plugin.
func (p *Plugin) Unmount(ctx context.Context, u volume.Unmount) error {
	return p.volumes.Unmount(ctx, u)
}
