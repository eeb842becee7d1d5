package eviction

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Usage is what was measured, of the node and of its pods.
type Usage struct {
	// Signals are the readings that are known.
	Signals map[Signal]Reading
	// Pods are what pods use, by UID.
	Pods map[types.UID]PodUsage
	// Disks says where images and containers are.
	Disks Disks
}

// Reading is what of something is left.
type Reading struct {
	// Capacity is how much there is of it at all; zero: that is not known.
	Available, Capacity uint64
	// Time is when it was measured.
	Time time.Time
}

// Disks says which filesystems a node has.
type Disks int

// The ways in which filesystems are divided.
const (
	// OneDisk: pods, containers and images share one filesystem.
	OneDisk Disks = iota
	// ImageDisk: images and containers have their own.
	ImageDisk
	// SplitDisk: images have their own, containers are where pods are.
	SplitDisk
)

// Disk is what something uses of a filesystem. nil is not known.
type Disk struct{ Bytes, Inodes *uint64 }

// PodUsage is what a pod uses. What is nil is not known.
type PodUsage struct {
	// Memory is the working set of the pod, in bytes.
	Memory *uint64
	// Processes are those of the pod.
	Processes *uint64
	// Volumes are what its local volumes use on the disk together.
	Volumes Disk
	// EmptyDirs are what emptyDir volumes use, in bytes, by name.
	EmptyDirs map[string]uint64
	// Containers are what containers use, by name.
	Containers map[string]ContainerUsage
}

// ContainerUsage is what a container uses. Root is what it has written into its
// filesystem, Logs its logs.
type ContainerUsage struct {
	Memory     *uint64
	Root, Logs Disk
}

// parts says which parts of what a pod writes count.
type parts struct{ root, logs, volumes bool }

// partsOf are what a pod has on the filesystem of the signal.
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

// disk sums up what a pod uses; known is false if nothing of it is known.
func (u PodUsage) disk(p parts, of func(Disk) *uint64) (sum uint64, known bool) {
	for _, c := range u.Containers {
		if n, ok := c.disk(p, of); ok {
			sum, known = saturated(sum, n), true
		}
	}
	if n := of(u.Volumes); p.volumes && n != nil {
		sum, known = saturated(sum, *n), true
	}
	return sum, known
}

func (u ContainerUsage) disk(p parts, of func(Disk) *uint64) (sum uint64, known bool) {
	if n := of(u.Root); p.root && n != nil {
		sum, known = *n, true
	}
	if n := of(u.Logs); p.logs && n != nil {
		sum, known = saturated(sum, *n), true
	}
	return sum, known
}

func saturated(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}

func bytesOf(d Disk) *uint64  { return d.Bytes }
func inodesOf(d Disk) *uint64 { return d.Inodes }
