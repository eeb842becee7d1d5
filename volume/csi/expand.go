package csi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
)

// Expand implements volume.Expander. If the driver lacks Capabilities.Expand, the controller
// has expanded the volume, and Expand returns the volume's capacity without a call.
func (p *Plugin) Expand(ctx context.Context, spec *volume.Spec, staged, dir string) (int64, error) {
	if spec.Persistent == nil {
		return 0, nil
	}
	l, err := p.lookUp(ctx, spec, nil)
	if err != nil {
		return 0, err
	}
	capacity := spec.Persistent.Spec.Capacity[v1.ResourceStorage]
	size := capacity.Value()
	if !l.can.Expand {
		return size, nil
	}
	secrets, err := p.secrets(ctx, expandSecret(spec))
	if err != nil {
		return 0, err
	}
	r := ExpandRequest{
		VolumeID: l.data.VolumeHandle, VolumePath: filepath.Join(dir, "mount"), Size: size, Secrets: secrets,
		Capability: l.capability(spec, nil, ""),
	}
	if l.can.Stage {
		r.StagingPath = staged
	}
	if spec.Block() {
		if r.VolumePath, err = os.Readlink(dir); err != nil {
			return 0, fmt.Errorf("csi: %w", err)
		}
	}
	var got int64
	err = p.call(ctx, l.data.DriverName, "NodeExpandVolume", func(ctx context.Context) (err error) {
		got, err = l.driver.Expand(ctx, r)
		return err
	})
	return max(got, size), err
}
