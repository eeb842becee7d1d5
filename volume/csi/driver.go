package csi

import (
	"context"
	"errors"

	"github.com/podwright/podwright/volume/usage"
)

// Driver is the node's side of a CSI driver. Methods are called concurrently, for one
// volume one at a time, and return soon after their context has ended. All are
// idempotent, as CSI asks for.
//
// An error that Final has marked says that the call has had no effect, and will have
// none. Every other may have had one, or have it yet.
type Driver interface {
	// Capabilities says what the driver can do (NodeGetCapabilities).
	Capabilities(ctx context.Context) (Capabilities, error)
	// Stage makes a volume ready on the node. It is called only with Capabilities.Stage.
	Stage(ctx context.Context, r StageRequest) error
	// Unstage undoes Stage.
	Unstage(ctx context.Context, volumeID, stagingPath string) error
	// Publish makes a volume ready for a pod, at a path that the driver makes.
	Publish(ctx context.Context, r PublishRequest) error
	// Unpublish undoes Publish, and removes the path.
	Unpublish(ctx context.Context, volumeID, targetPath string) error
	// Expand makes a volume larger while it is in use, and returns its size in bytes; zero
	// means that the driver does not say. It is called only with Capabilities.Expand.
	Expand(ctx context.Context, r ExpandRequest) (size int64, err error)
	// Stats tells how full a volume is; what the driver does not say is below zero. It is
	// called only with Capabilities.Stats.
	Stats(ctx context.Context, r StatsRequest) (usage.Usage, error)
}

// Drivers finds drivers. Methods are called concurrently.
type Drivers interface {
	// Driver returns the driver of that name, nil if it is not registered.
	Driver(name string) Driver
}

// Absences is a Drivers that knows more of a driver than that it is not there.
type Absences interface {
	// Absence says why Driver returns nil, as that the driver is being asked since when
	// who it is; empty if nothing is known.
	Absence(name string) string
}

// Capabilities are what a driver can do on the node.
type Capabilities struct {
	// Stage is STAGE_UNSTAGE_VOLUME, Stats GET_VOLUME_STATS, Expand EXPAND_VOLUME,
	// MultiWriter SINGLE_NODE_MULTI_WRITER, MountGroup VOLUME_MOUNT_GROUP: the driver
	// gives the volume to the pod's fsGroup.
	Stage, Stats, Expand, MultiWriter, MountGroup bool
}

// Capability says how a volume is used.
type Capability struct {
	// Block asks for a device; FSType, MountFlags and MountGroup are empty then.
	Block bool
	// FSType is the type of the file system; empty leaves it to the driver.
	FSType string
	// MountFlags are those of the PersistentVolume.
	MountFlags []string
	// MountGroup is the group of the files, in decimal; empty means none.
	MountGroup string
	// AccessMode is that of CSI, as "SINGLE_NODE_WRITER".
	AccessMode string
}

// StageRequest is that of NodeStageVolume.
type StageRequest struct {
	VolumeID, StagingPath          string
	PublishContext, Secrets, Attrs map[string]string
	Capability                     Capability
}

// PublishRequest is that of NodePublishVolume. StagingPath is empty for a driver that
// does not stage. Attrs are the volume context.
type PublishRequest struct {
	VolumeID, StagingPath, TargetPath string
	PublishContext, Secrets, Attrs    map[string]string
	Capability                        Capability
	ReadOnly                          bool
}

// ExpandRequest is that of NodeExpandVolume. Size is how large the volume has to be, in
// bytes.
type ExpandRequest struct {
	VolumeID, VolumePath, StagingPath string
	Size                              int64
	Secrets                           map[string]string
	Capability                        Capability
}

// StatsRequest is that of NodeGetVolumeStats.
type StatsRequest struct{ VolumeID, VolumePath, StagingPath string }

// ErrFinal is wrapped by an error of a Driver whose call had no effect.
var ErrFinal = errors.New("nothing was done")

// Final marks an error: see ErrFinal. nil stays nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return final{err}
}

type final struct{ error }

func (f final) Unwrap() []error { return []error{f.error, ErrFinal} }
