package node

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Facts are the facts about a node at a moment. A nil field is unknown and leaves its part of the
// status unchanged, unless documented otherwise.
type Facts struct {
	// Now is the time of heartbeats and transitions. Required.
	Now time.Time

	// Addresses are the node's addresses, in order. nil leaves them to another component, such as
	// a cloud provider.
	Addresses []v1.NodeAddress
	Machine   *Machine
	Versions  *Versions
	// Port is the port of the agent's API. 0 means that it serves none.
	Port int32

	// MaxPods is the maximum number of pods on the node. Default: 110. A negative value means 0.
	// PodsPerCore is the maximum number per processor. Default: no limit. The smaller limit
	// applies. The capacity contains it if Machine is not nil.
	MaxPods, PodsPerCore int64
	// Plugins are resources of providers beside the machine, such as devices. A resource that was
	// removed for good must stay here with zero amounts, because resources of the status that are
	// missing here belong to other components and stay.
	Plugins map[v1.ResourceName]Amount
	// Reserved is the part of the capacity that pods cannot use. It may exceed the capacity.
	Reserved v1.ResourceList

	// Images are the images on the node, in any order. MaxImages is the maximum number in the
	// status. Default: 50. A negative value means all.
	Images    []Image
	MaxImages int
	// Handlers are the runtime's handlers, to which RuntimeClasses refer.
	Handlers []Handler
	// Features are the features of the runtime as a whole.
	Features *Features
	// Declared are the features that the agent declares to schedulers, in any order (KEP-5328).
	// nil means that they are unknown: the reported ones stay.
	Declared []string

	// Pressure has the scarce resources of the node.
	Pressure *Pressure
	// NotReady lists the reasons to keep pods away from the node. Without a reason the node is
	// ready if its capacity is complete. Empty strings are ignored.
	NotReady []string
	// NoLocalStorage disables the accounting of local storage (localStorageCapacityIsolation:
	// false). The node is then ready without a storage capacity.
	NoLocalStorage bool

	// VolumesInUse are the attachable volumes that are, or may be, mounted and must not be
	// detached. nil means unknown, for example before an agent has found the volumes of its
	// predecessor; an empty list means no volume.
	VolumesInUse []v1.UniqueVolumeName
}

// Machine describes the machine of a node.
type Machine struct {
	// ID is /etc/machine-id, SystemUUID the firmware's identifier, BootID the kernel's identifier
	// of this boot.
	ID, SystemUUID, BootID string
	// Cores is the number of processors for pods.
	Cores int64
	// Memory, Storage and Swap are sizes in bytes. Storage is 0 if unknown.
	Memory, Storage, Swap int64
	// HugePages are the reserved bytes by page size in bytes. The machine does not support a
	// missing size.
	HugePages map[int64]int64
	// Pids is the maximum number of processes and threads, or 0 if unknown. It is not an API
	// resource; a reservation reduces the number for pods.
	Pids int64
}

// Versions are the versions of the node's software.
type Versions struct {
	// Kernel is, for example, "6.1.0-18-amd64", OSImage "Debian GNU/Linux 12".
	Kernel, OSImage string
	// OS and Architecture use Go's names: "linux", "amd64".
	OS, Architecture string
	// Runtime is the container runtime's name and version, such as "containerd://1.6.20". An
	// empty value is unknown and changes nothing.
	Runtime string
	// Agent is the version of the kubelet that the agent implements, such as "v1.36.3".
	Agent string
}

// Amount is the capacity of a resource and the part for pods.
type Amount struct{ Capacity, Allocatable int64 }

// Image is an image on the node.
type Image struct {
	// Digests and Tags are the names of the image.
	Digests, Tags []string
	// Bytes is the image's size on the disk.
	Bytes int64
}

// Handler is a handler of the runtime. The default handler has an empty name.
type Handler struct {
	Name                                    string
	RecursiveReadOnlyMounts, UserNamespaces bool
}

// Features are the features of the runtime as a whole.
type Features struct{ SupplementalGroupsPolicy bool }

// Pressure has true for each scarce resource.
type Pressure struct{ Memory, Disk, PID bool }
