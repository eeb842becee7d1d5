package eviction

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Signal is a measured resource of the node.
type Signal string

// The signals, in the order of action. The containerfs signals are accepted in settings but have
// no thresholds: that filesystem is the node's or the images' one, whose thresholds apply.
const (
	MemoryAvailable            Signal = "memory.available"
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	NodeFSAvailable            Signal = "nodefs.available"
	NodeFSInodesFree           Signal = "nodefs.inodesFree"
	ImageFSAvailable           Signal = "imagefs.available"
	ImageFSInodesFree          Signal = "imagefs.inodesFree"
	ContainerFSAvailable       Signal = "containerfs.available"
	ContainerFSInodesFree      Signal = "containerfs.inodesFree"
	PIDAvailable               Signal = "pid.available"
)

// The limits of local storage, as named in metrics beside the signals.
const (
	EmptyDirLimit         Signal = "emptydirfs.limit"
	PodStorageLimit       Signal = "ephemeralpodfs.limit"
	ContainerStorageLimit Signal = "ephemeralcontainerfs.limit"
)

// Resource names that only evictions use.
const (
	resourceInodes v1.ResourceName = "inodes"
	resourcePIDs   v1.ResourceName = "pids"
)

// signals returns all signals in the order of action.
func signals() []Signal {
	return []Signal{
		MemoryAvailable, AllocatableMemoryAvailable, NodeFSAvailable, NodeFSInodesFree, ImageFSAvailable,
		ImageFSInodesFree, ContainerFSAvailable, ContainerFSInodesFree, PIDAvailable,
	}
}

func (s Signal) order() int { return slices.Index(signals(), s) }

// Resource returns the signal's resource as named in events and messages.
func (s Signal) Resource() v1.ResourceName {
	switch s {
	case MemoryAvailable, AllocatableMemoryAvailable:
		return v1.ResourceMemory
	case NodeFSInodesFree, ImageFSInodesFree, ContainerFSInodesFree:
		return resourceInodes
	case PIDAvailable:
		return resourcePIDs
	default:
		return v1.ResourceEphemeralStorage
	}
}

func (s Signal) ofImages() bool { return s == ImageFSAvailable || s == ImageFSInodesFree }

func (s Signal) ofContainers() bool { return s == ContainerFSAvailable || s == ContainerFSInodesFree }

// Pressure is the set of pressure conditions of a node.
type Pressure struct{ Memory, Disk, PID bool }

func (s Signal) condition() v1.NodeConditionType {
	switch s.Resource() {
	case v1.ResourceMemory:
		return v1.NodeMemoryPressure
	case resourcePIDs:
		return v1.NodePIDPressure
	default:
		return v1.NodeDiskPressure
	}
}

func (p Pressure) names() (out []v1.NodeConditionType) {
	for _, c := range []struct {
		on   bool
		name v1.NodeConditionType
	}{{p.Memory, v1.NodeMemoryPressure}, {p.Disk, v1.NodeDiskPressure}, {p.PID, v1.NodePIDPressure}} {
		if c.on {
			out = append(out, c.name)
		}
	}
	return out
}

// pressureSince returns the conditions last seen at now or less than period ago.
func pressureSince(seen map[v1.NodeConditionType]time.Time, period time.Duration, now time.Time) Pressure {
	on := func(c v1.NodeConditionType) bool {
		at, ok := seen[c]
		return ok && (now.Sub(at) < period || at.Equal(now))
	}
	return Pressure{Memory: on(v1.NodeMemoryPressure), Disk: on(v1.NodeDiskPressure), PID: on(v1.NodePIDPressure)}
}
