package csi

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/usage"
)

// ErrNoUsage is wrapped by the error for a volume whose driver does not report usage.
var ErrNoUsage = errors.New("the driver does not report the usage of volumes")

// Usage requests the usage of a pod's volume from the driver. dir is the volume's folder
// (volume.Mount.Dir) or the path of its files (volume.Mounted.Path). ok is false for a folder
// of another plugin. Usage is a usage.Config.Ask. It avoids walks of volumes that may be large
// or remote.
func (p *Plugin) Usage(ctx context.Context, dir string) (u usage.Usage, ok bool, err error) {
	switch {
	case isFolder(dir):
	case filepath.Base(dir) == "mount" && isFolder(filepath.Dir(dir)):
		dir = filepath.Dir(dir)
	default:
		return u, false, nil
	}
	d, err := readData(dir)
	if err != nil {
		return u, false, fmt.Errorf("csi: %w", err)
	}
	driver, err := p.driver(d.DriverName)
	if err != nil {
		return u, false, err
	}
	can, err := p.capabilities(ctx, d.DriverName, driver)
	switch {
	case err != nil:
		return u, false, err
	case !can.Stats:
		return u, false, fmt.Errorf("csi: driver %s: %w", d.DriverName, ErrNoUsage)
	}
	r := StatsRequest{VolumeID: d.VolumeHandle, VolumePath: filepath.Join(dir, "mount")}
	if can.Stage && d.VolumeLifecycleMode != ephemeral {
		r.StagingPath = p.stagedFiles(d.DriverName, d.VolumeHandle).path
	}
	err = p.call(ctx, d.DriverName, "NodeGetVolumeStats", func(ctx context.Context) (err error) {
		u, err = driver.Stats(ctx, r)
		return err
	})
	return u, err == nil, err
}

func isFolder(dir string) bool { return filepath.Base(filepath.Dir(dir)) == volume.Escape(Name) }
