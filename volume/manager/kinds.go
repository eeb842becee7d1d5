package manager

import "fmt"

// State is what is known about a volume of a pod.
type State uint8

// The states of a pod's volume.
const (
	// StateNotMounted: there is nothing that would have to be unmounted.
	StateNotMounted State = iota
	// StateMounted: it was mounted by this agent.
	StateMounted
	// StateUncertain: something may be there. It was found on disk, or a Mount or an
	// Unmount did not say what it has left.
	StateUncertain
)

// String returns the name of the state.
func (s State) String() string {
	names := []string{"NotMounted", "Mounted", "Uncertain"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// kind is what an operation does.
type kind uint8

const (
	doNothing kind = iota
	doMount
	doUnmount
	doExpand
	// The next are done for a volume that pods share.
	doVerify
	doStage
	doUnstage
	// The next are done for a whole pod: it is looked for what the disk has of it
	// after its sub paths were unmounted, and at last its empty folders are removed.
	doLook
	doFinish
	// doRead looks at the disk only, at the start of an agent.
	doRead
	// doList asks a Stager what it has staged.
	doList
)

// String says what runs.
func (k kind) String() string {
	return [...]string{
		"", "mount", "unmount", "expand", "verify that it is attached", "stage", "unstage",
		"unmount sub paths", "remove folders", "read what is on disk", "list what is staged",
	}[k]
}

// metric is the operation's name in metrics: that of the upstream kubelet where it has
// the operation.
func (k kind) metric(block bool) string {
	if block {
		switch k {
		case doMount:
			return "map_volume"
		case doUnmount:
			return "unmap_volume"
		case doUnstage:
			return "unmap_device"
		}
	}
	return [...]string{
		"", "volume_mount", "volume_unmount", "volume_fs_resize", "verify_controller_attached_volume", "mount_device", "unmount_device",
		"unmount_subpaths", "remove_folders", "read_disk", "list_staged",
	}[k]
}
