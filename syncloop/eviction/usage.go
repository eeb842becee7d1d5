package eviction

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Usage is a measurement of the node and its pods.
type Usage struct {
	// Signals are the available readings.
	Signals map[Signal]Reading
	// Pods is the usage of pods by UID.
	Pods map[types.UID]PodUsage
	// Disks is the layout of the filesystems.
	Disks Disks
}

// Reading is one measurement of a signal.
type Reading struct {
	// Available and Capacity are in the signal's unit. Capacity is 0 if it is unknown.
	Available, Capacity uint64
	// Time is the time of the measurement.
	Time time.Time
}

// Disks is the layout of a node's filesystems.
type Disks int

// The layouts.
const (
	// OneDisk: pods, containers and images share one filesystem.
	OneDisk Disks = iota
	// ImageDisk: images and containers share a filesystem separate from the pods'.
	ImageDisk
	// SplitDisk: images have a separate filesystem; containers share the pods' one.
	SplitDisk
)

// Disk is the usage of one filesystem. A nil figure is unavailable.
type Disk struct{ Bytes, Inodes *uint64 }

// PodUsage is the usage of one pod. A nil figure is unavailable.
type PodUsage struct {
	// Memory is the working set of the pod, in bytes.
	Memory *uint64
	// Processes is the number of the pod's processes.
	Processes *uint64
	// Volumes is the total usage of the pod's local volumes.
	Volumes Disk
	// Files is the usage of the pod's files that the agent makes and containers can fill: /etc/hosts
	// and termination messages.
	Files Disk
	// EmptyDirs is the usage of emptyDir volumes in bytes, by name.
	EmptyDirs map[string]uint64
	// Containers is the usage of the containers by name.
	Containers map[string]ContainerUsage
}

// ContainerUsage is the usage of one container. Root is its writable layer.
type ContainerUsage struct {
	Memory     *uint64
	Root, Logs Disk
}

// parts selects the storage of a pod that counts. volumes includes PodUsage.Files, which is on the
// same filesystem.
type parts struct{ root, logs, volumes bool }

// partsOf returns the storage of a pod on the signal's filesystem.
func partsOf(s Signal, disks Disks) parts {
	switch {
	case disks == OneDisk:
		return parts{root: true, logs: true, volumes: true}
	case s.ofImages():
		return parts{root: disks == ImageDisk}
	default:
		return parts{root: disks == SplitDisk, logs: true, volumes: true}
	}
}

// disk returns the sum of the selected storage; measured is false if all parts are unavailable.
func (u PodUsage) disk(p parts, of func(Disk) *uint64) (sum uint64, measured bool) {
	for _, c := range u.Containers {
		if n, ok := c.disk(p, of); ok {
			sum, measured = saturated(sum, n), true
		}
	}
	for _, d := range []Disk{u.Volumes, u.Files} {
		if n := of(d); p.volumes && n != nil {
			sum, measured = saturated(sum, *n), true
		}
	}
	return sum, measured
}

func (u ContainerUsage) disk(p parts, of func(Disk) *uint64) (sum uint64, measured bool) {
	if n := of(u.Root); p.root && n != nil {
		sum, measured = *n, true
	}
	if n := of(u.Logs); p.logs && n != nil {
		sum, measured = saturated(sum, *n), true
	}
	return sum, measured
}

func saturated(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}

func bytesOf(d Disk) *uint64  { return d.Bytes }
func inodesOf(d Disk) *uint64 { return d.Inodes }
