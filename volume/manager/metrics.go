package manager

import (
	"time"

	"github.com/podwright/podwright/volume"
)

// Metrics are callbacks for metrics of volumes. They are called concurrently and without locks,
// and must not block. Each is optional.
type Metrics struct {
	// OnOperation is called after each operation of a plugin.
	OnOperation func(Operation)
	// OnReady is called after the first successful mount of a volume with the time since its
	// request, including failed attempts.
	OnReady func(plugin string, took time.Duration)
	// OnFound is called for each volume of an earlier agent on the disk. known is true if the
	// volume has a plugin and its id is known.
	OnFound func(plugin string, known bool)
	// OnLabel is called on a node with SELinux for the labels that volumes need: for LabelFits
	// and LabelConflict once per pod and volume, for other results at each attempt.
	OnLabel func(LabelCheck)
}

// Operation is a completed operation.
type Operation struct {
	// Name is upstream's name in metrics: volume_mount, volume_unmount, map_volume,
	// unmap_volume, unmount_device, unmap_device, volume_fs_resize,
	// verify_controller_attached_volume; or mount_device or list_staged.
	Name   string
	Plugin string
	// Took is the duration.
	Took time.Duration
	// Forced is true for the unmount of a volume from the disk whose id is unknown.
	Forced bool
	// Err is the error of the operation, or nil.
	Err error
}

// LabelCheck is the result of a comparison of SELinux labels.
type LabelCheck struct {
	Plugin string
	Spec   *volume.Spec
	Result LabelResult
	// Enforced is true for a volume with the access mode ReadWriteOncePod. Its pod does not
	// start if the label does not fit. The runtime sets the labels of other volumes.
	Enforced bool
}

// LabelResult is the result of a LabelCheck.
type LabelResult string

// Results of a LabelCheck.
const (
	LabelFits     LabelResult = "fits"
	LabelUnknown  LabelResult = "unknown"  // FileLabel fails for a container's options
	LabelsDiffer  LabelResult = "differ"   // the pod's containers need different labels: ErrLabels
	LabelConflict LabelResult = "conflict" // another pod uses the volume with another label
)
