package manager

import (
	"time"

	"github.com/podwright/podwright/volume"
)

// Metrics is told what happens with volumes. Callbacks are called without locks,
// concurrently, and must not block.
type Metrics struct {
	// OnOperation is told of the end of each operation of a plugin.
	OnOperation func(Operation)
	// OnReady is told how long it took until a volume was mounted, from the moment it
	// was asked for, with all that failed before.
	OnReady func(plugin string, took time.Duration)
	// OnFound is told of each volume that the disk has of an agent before this one. known
	// tells that there is a plugin for it that can say which volume it is.
	OnFound func(plugin string, known bool)
	// OnLabel is told of the SELinux labels that volumes have to have, on a node with SELinux:
	// of what fits once for a volume, of anything else with each try.
	OnLabel func(LabelCheck)
}

// Operation is one that has ended.
type Operation struct {
	// Name is that of upstream's metrics: volume_mount, volume_unmount, map_volume,
	// unmap_volume, unmount_device, unmap_device, volume_fs_resize,
	// verify_controller_attached_volume; or mount_device or list_staged.
	Name string
	// Plugin is the plugin's name.
	Plugin string
	// Took is how long it ran.
	Took time.Duration
	// Forced tells that it unmounts what was found on disk and of which the plugin cannot
	// tell which volume it is.
	Forced bool
	// Err is how it failed; nil means that it did not.
	Err error
}

// LabelCheck is a look at the SELinux label that a volume has to have for a pod.
type LabelCheck struct {
	Plugin string
	Spec   *volume.Spec
	Result LabelResult
	// Enforced tells that it is a volume of one pod, which does not start if the label does
	// not fit. Others are labelled by the runtime.
	Enforced bool
}

// LabelResult is what a LabelCheck has shown.
type LabelResult string

// The results.
const (
	LabelFits     LabelResult = "fits"
	LabelUnknown  LabelResult = "unknown"  // nobody knows the label for a container's options
	LabelsDiffer  LabelResult = "differ"   // of the pod's containers: ErrLabels
	LabelConflict LabelResult = "conflict" // another pod has the volume with another label
)
