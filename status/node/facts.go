package node

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Facts are what is known of a node at a moment. What is nil is not known, and leaves
// the status as it was, except where a field says otherwise.
type Facts struct {
	// Now is the moment, for heartbeats and transitions. Required.
	Now time.Time

	// Addresses are how the node is reached, in order. nil: somebody else says so, such
	// as a cloud provider.
	Addresses []v1.NodeAddress
	// Machine is what the machine is and has.
	Machine *Machine
	// Versions are what runs on it.
	Versions *Versions
	// Port is where the agent serves its API; zero: nowhere.
	Port int32

	// MaxPods is how many pods may be on the node: zero is 110, negative none.
	// PodsPerCore is how many for each processor; zero: no such limit. The smaller one
	// counts. The capacity shows it if Machine is known.
	MaxPods, PodsPerCore int64
	// Plugins are resources that something beside the machine provides, such as devices.
	// One that is gone for good stays here with nothing in it: a resource that nobody on
	// the node knows of is somebody else's, and stays.
	Plugins map[v1.ResourceName]Amount
	// Reserved is what pods may not have of the capacity; it may be larger.
	Reserved v1.ResourceList

	// Images are those on the node, in any order; MaxImages how many are shown: zero is
	// 50, negative all.
	Images    []Image
	MaxImages int
	// Handlers are the runtime's handlers, what RuntimeClasses name.
	Handlers []Handler
	// Features are what the runtime as a whole can do.
	Features *Features
	// Declared are the features of the agent that are told to schedulers, in any order
	// (KEP-5328). nil: none.
	Declared []string

	// Pressure is what the node is short of. nil: nobody has looked.
	Pressure *Pressure
	// NotReady are the reasons why pods should not come here; none: the node is ready,
	// if its capacity is known. Empty ones do not count.
	NotReady []string
	// NoLocalStorage: the node counts no storage (localStorageCapacityIsolation: false),
	// so it is ready without a capacity of it.
	NoLocalStorage bool

	// VolumesInUse are the attachable volumes that are mounted or may yet be: they must
	// not be detached. nil: not known yet, as before an agent has found out what its
	// predecessor has left; empty: none.
	VolumesInUse []v1.UniqueVolumeName
}

// Machine is what a machine is and has.
type Machine struct {
	// ID is /etc/machine-id, SystemUUID what the firmware calls the machine, BootID what
	// the kernel calls this boot.
	ID, SystemUUID, BootID string
	// Cores is how many processors pods can run on.
	Cores int64
	// Memory, Storage and Swap are bytes. Storage zero: not known.
	Memory, Storage, Swap int64
	// HugePages are the bytes set aside, by page size in bytes. A size that is not there
	// is one that the machine does not have.
	HugePages map[int64]int64
	// Pids is how many processes and threads there can be. Zero: not known. It is no
	// resource of the API; what is reserved of it is not for pods.
	Pids int64
}

// Versions are what runs on a machine.
type Versions struct {
	// Kernel is such as "6.1.0-18-amd64", OSImage such as "Debian GNU/Linux 12".
	Kernel, OSImage string
	// OS and Architecture are as Go spells them: "linux", "amd64".
	OS, Architecture string
	// Runtime is the container runtime's name and version, "containerd://1.6.20". Empty:
	// not known, stays.
	Runtime string
	// Agent is the version whose behaviour the agent has: "v1.36.3".
	Agent string
}

// Amount is how much there is of a resource, and how much of it pods may have.
type Amount struct{ Capacity, Allocatable int64 }

// Image is an image on the node.
type Image struct {
	// Digests and Tags are the names it goes by.
	Digests, Tags []string
	// Bytes is what it takes on the disk.
	Bytes int64
}

// Handler is a handler of the runtime. The default one has no name.
type Handler struct {
	Name                                    string
	RecursiveReadOnlyMounts, UserNamespaces bool
}

// Features are what the runtime as a whole can do.
type Features struct{ SupplementalGroupsPolicy bool }

// Pressure is what a node is short of.
type Pressure struct{ Memory, Disk, PID bool }
