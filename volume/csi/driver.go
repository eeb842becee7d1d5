package csi

import (
	"context"
	"errors"

	"github.com/podwright/podwright/volume/usage"
)

// Driver is the node service of a CSI driver. Methods are called concurrently, but one at a
// time per volume. They return soon after their context ends. All are idempotent, as CSI
// requires.
//
// An error that is marked with Final means that the call has no effect. After any other error
// the call may have taken effect, or may still do so.
type Driver interface {
	// Capabilities returns the driver's capabilities (NodeGetCapabilities).
	Capabilities(ctx context.Context) (Capabilities, error)
	// Stage prepares a volume on the node. It is called only with Capabilities.Stage.
	Stage(ctx context.Context, r StageRequest) error
	// Unstage undoes Stage.
	Unstage(ctx context.Context, volumeID, stagingPath string) error
	// Publish prepares a volume for a pod, at a path that the driver creates.
	Publish(ctx context.Context, r PublishRequest) error
	// Unpublish undoes Publish and removes the path.
	Unpublish(ctx context.Context, volumeID, targetPath string) error
	// Expand grows a volume in use and returns its size in bytes, or zero if the driver returns
	// no size. It is called only with Capabilities.Expand.
	Expand(ctx context.Context, r ExpandRequest) (size int64, err error)
	// Stats returns the usage of a volume. Figures that the driver does not report are below
	// zero. It is called only with Capabilities.Stats.
	Stats(ctx context.Context, r StatsRequest) (usage.Usage, error)
}

// Drivers finds drivers. Methods are called concurrently.
type Drivers interface {
	// Driver returns the driver with this name, or nil if it is not registered. Stage and Mount
	// of its volumes then fail with volume.ErrTransient.
	Driver(name string) Driver
}

// Absences is implemented by a Drivers that can explain why a driver is missing.
type Absences interface {
	// Absence returns the reason why Driver returns nil, such as a registration in progress
	// with its start time. It returns "" without a reason.
	Absence(name string) string
}

// Capabilities are the node capabilities of a driver.
type Capabilities struct {
	// Stage is STAGE_UNSTAGE_VOLUME, Stats GET_VOLUME_STATS, Expand EXPAND_VOLUME, MultiWriter
	// SINGLE_NODE_MULTI_WRITER. MountGroup is VOLUME_MOUNT_GROUP: the driver sets the pod's
	// fsGroup on the volume.
	Stage, Stats, Expand, MultiWriter, MountGroup bool
}

// Capability describes the use of a volume.
type Capability struct {
	// Block selects a device. FSType, MountFlags and MountGroup are then empty.
	Block bool
	// FSType is the type of the file system. Empty selects the driver's default.
	FSType string
	// MountFlags are the mount options of the PersistentVolume.
	MountFlags []string
	// MountGroup is the group of the files, in decimal. Empty means none.
	MountGroup string
	// AccessMode is the access mode in CSI's terms, such as "SINGLE_NODE_WRITER".
	AccessMode string
}

// StageRequest is the request of NodeStageVolume. Attrs are the volume context.
type StageRequest struct {
	VolumeID, StagingPath          string
	PublishContext, Secrets, Attrs map[string]string
	Capability                     Capability
}

// PublishRequest is the request of NodePublishVolume. StagingPath is empty for a driver that
// does not stage. Attrs are the volume context.
type PublishRequest struct {
	VolumeID, StagingPath, TargetPath string
	PublishContext, Secrets, Attrs    map[string]string
	Capability                        Capability
	ReadOnly                          bool
}

// ExpandRequest is the request of NodeExpandVolume. Size is the required size in bytes.
type ExpandRequest struct {
	VolumeID, VolumePath, StagingPath string
	Size                              int64
	Secrets                           map[string]string
	Capability                        Capability
}

// StatsRequest is the request of NodeGetVolumeStats.
type StatsRequest struct{ VolumeID, VolumePath, StagingPath string }

// ErrFinal is wrapped by the error of a Driver whose call had no effect.
var ErrFinal = errors.New("the call had no effect")

// Final marks err with ErrFinal. A nil error stays nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return final{err}
}

type final struct{ error }

func (f final) Unwrap() []error { return []error{f.error, ErrFinal} }
