package volume

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Plugin implements one kind of volume.
//
// Methods are called concurrently, but never Mount and Unmount at the same time for one volume
// of one pod. The agent may be killed at any moment, also within a method; the next agent then
// calls Mount or Unmount on the remains. Mount and Unmount return soon after their context
// ends. If the kernel delays that, the caller returns without them and calls no method for that
// volume until they have returned.
type Plugin interface {
	// Name returns the plugin's name, such as "kubernetes.io/empty-dir". It determines the
	// names of the plugin's folders.
	Name() string
	// Supports reports whether the volume is of the plugin's kind. It is pure. Exactly one
	// plugin of an agent supports a volume.
	Supports(spec *Spec) bool
	// Mount prepares the volume for the pod's containers and returns its location. It is
	// idempotent: it leaves correct parts as they are, because running containers see them, and
	// creates parts that are missing or that a crash left incomplete. After an error, parts of
	// the volume may exist. The marks Uncertain and Transient of the error define which.
	Mount(ctx context.Context, m Mount) (Mounted, error)
	// Unmount removes each part that Mount may have created, and never data of another pod or
	// of the user. A nil error means that no part exists now. Missing parts are no error.
	Unmount(ctx context.Context, u Unmount) error
}

// Mount is the input of Plugin.Mount.
type Mount struct {
	Pod  *v1.Pod
	Spec *Spec
	// Dir is the volume's folder (Layout.Volume), or for a block volume the link to its device
	// (Layout.Device). The plugin creates it; its parent exists.
	Dir string
	// StateDir is the folder for the plugin's state of the volume (Layout.State). The plugin
	// creates it with its parents.
	StateDir string
	// Staged is the result of Stager.Stage. It is empty for a volume that pods do not share.
	Staged string

	// FSGroup is the group for the volume's files. Nil leaves their group as it is.
	FSGroup *int64
	// FSGroupPolicy selects when the ownership of files changes. Nil means always.
	FSGroupPolicy *v1.PodFSGroupChangePolicy
	// OnProgress is passed to ownership.Config: it reports the progress of a long change to
	// FSGroup. Optional.
	OnProgress func(entries int)
	// RunAsUser is the user of all containers of the pod. It is nil if they differ or if none
	// is set.
	RunAsUser *int64
	// SizeLimit is the largest size in bytes: the smaller of the volume's limit and the pod's
	// limit for that medium. Zero means no limit.
	SizeLimit int64
	// SELinuxLabel is the label for the mount. Empty means none. See LabelMounter.
	SELinuxLabel string
	// Inside lists the paths, relative to the volume, at which containers mount other volumes.
	// The plugin creates these folders if containers cannot write to the volume.
	Inside []string

	// Again is true if this agent has mounted the volume and containers may use it. A failed
	// Mount then leaves it as it is.
	Again bool
	// Found is true if the volume was found on the disk and the agent has no further record of
	// it.
	Found bool
}

// Mounted is the result of Mount, for containers.
type Mounted struct {
	// Path is the directory or file on the node. It is empty for a block volume.
	Path string
	// Device is the device of a block volume, or a symbolic link to it. It is empty for a
	// volume with files.
	Device string
	// ReadOnly makes each mount and device of the volume read-only.
	ReadOnly bool
	// Relabel makes the runtime set the container's SELinux label on the content. It is true
	// for content of the agent that is not mounted with a label. It has an effect only on nodes
	// with SELinux.
	Relabel bool
	// RefreshAt is the latest time for another Mount that renews the content, such as a token
	// that expires. Zero means never.
	RefreshAt time.Time
}

// Unmount is the input of Plugin.Unmount.
type Unmount struct {
	Pod types.UID
	// Name is Spec.Name.
	Name string
	// Dir and StateDir are the same as in Mount.
	Dir, StateDir string
	// Block is true for a device, false for a file system.
	Block bool
}

// Remounter is a Plugin whose volumes are mounted again at each sync of their pod, to update
// their content. A Mount without changes must be very cheap.
type Remounter interface {
	Remounts(spec *Spec) bool
}

// Dependent is a Plugin whose volumes have the content of API objects. A volume is mounted
// again as soon as one of its objects changes.
type Dependent interface {
	// Objects returns the objects of the volume. It is pure.
	Objects(pod *v1.Pod, spec *Spec) []Object
}

// Stager is a Plugin with volumes that the pods of a node share. Such a volume is staged once,
// before the first pod mounts it, and unstaged after the last pod has unmounted it. No two
// methods run at the same time for one volume, and none runs while a pod mounts or unmounts it.
type Stager interface {
	// VolumeID returns the id of a shared volume on the node. Empty means that each pod has its
	// own volume, without a stage.
	VolumeID(spec *Spec) string
	// Stage prepares the volume for Mount and returns the path for Mount.Staged. It is
	// idempotent and marks errors in the same way as Mount.
	Stage(ctx context.Context, s Stage) (path string, err error)
	// Unstage removes each part that Stage may have created. Missing parts are no error.
	Unstage(ctx context.Context, id string) error
	// Staged reads from the disk the ids of all volumes with possible remains of Stage.
	Staged(ctx context.Context) (ids []string, err error)
}

// Stage is the input of Stager.Stage.
type Stage struct {
	ID   string
	Spec *Spec
	// DevicePath is the path of the attached device. It is empty if the volume was not
	// attached, or if the plugin finds the device itself.
	DevicePath string
	// FSGroup and SELinuxLabel are the values of the first pod, as in Mount.
	FSGroup      *int64
	SELinuxLabel string
	// Found has the same meaning as in Mount.
	Found bool
}

// Attachable is a Stager with volumes that a controller outside the agent attaches to the node.
type Attachable interface {
	// Attaches reports whether the volume must be attached before it is staged.
	Attaches(ctx context.Context, spec *Spec) (bool, error)
}

// Expander is a Plugin that can grow a mounted volume.
type Expander interface {
	// Expand grows the volume on the node to the capacity of its PersistentVolume and returns the
	// new size.
	// staged and dir are the volume's paths; both may be in use.
	Expand(ctx context.Context, spec *Spec, staged, dir string) (size int64, err error)
}

// Identifier is a Stager that finds the id of a shared volume from the folder of a pod's volume. The
// agent requires that for volumes of earlier agents, which it finds on the disk.
type Identifier interface {
	// VolumeIDOf returns the VolumeID of the volume at the folder dir, or "" if the volume is
	// not shared.
	VolumeIDOf(dir string) (id string, err error)
}

// LabelMounter is a Plugin that can mount a volume with one SELinux label for all its files
// (the mount option context=), so that no file needs a new label. The agent requests this with
// Mount.SELinuxLabel and Stage.SELinuxLabel. It does so only for volumes with the access mode
// ReadWriteOncePod, if the pod does not opt out (seLinuxChangePolicy) and its containers have
// equal labels (KEP-1710).
type LabelMounter interface {
	// MountsLabel reports whether the plugin can mount this volume with a label. It must not
	// block.
	MountsLabel(spec *Spec) (bool, error)
}
