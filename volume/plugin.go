package volume

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Plugin knows one kind of volume.
//
// Methods are called concurrently, but Mount and Unmount never at the same time for one
// volume of one pod. The agent may be killed at any moment, within a method too: the
// next one calls Mount or Unmount on what is there. Mount and Unmount return soon after
// their context has ended; where the kernel does not let them, the caller leaves them
// behind and calls nothing for that volume until they have returned.
type Plugin interface {
	// Name is the plugin's name, "kubernetes.io/empty-dir". It names its folders.
	Name() string
	// Supports tells whether a volume is of this kind. It is pure. Exactly one plugin of
	// an agent supports a volume.
	Supports(spec *Spec) bool
	// Mount makes the volume ready for the pod's containers and says where it is. It is
	// idempotent: what is there and right stays as it is, seen by containers that run;
	// what is missing or was left half done by a crash is made. An error may leave a
	// part. It says what it may have left: see Uncertain and Transient.
	Mount(ctx context.Context, m Mount) (Mounted, error)
	// Unmount takes away all that Mount may have made, also a part of it, and never what
	// is another pod's or the user's. nil means that nothing is left; that there was
	// nothing is no error.
	Unmount(ctx context.Context, u Unmount) error
}

// Mount is what a Plugin needs to know to mount a volume.
type Mount struct {
	Pod  *v1.Pod
	Spec *Spec
	// Dir is the volume's folder (Layout.Volume), or the link to its device for a block
	// volume (Layout.Device). The plugin makes it; the folder that it is in is there.
	Dir string
	// StateDir is where the plugin keeps what it must remember about the volume
	// (Layout.State). The plugin makes it with its parents.
	StateDir string
	// Staged is what Stager.Stage returned; empty for a volume that pods do not share.
	Staged string

	// FSGroup is the group that the pod's files shall have; nil means none.
	FSGroup *int64
	// FSGroupPolicy says when ownership is changed; nil means always.
	FSGroupPolicy *v1.PodFSGroupChangePolicy
	// OnProgress is for ownership.Config: it tells the pod's owner that FSGroup is still
	// being given to files. May be nil.
	OnProgress func(entries int)
	// RunAsUser is the user of all containers of the pod, nil if they differ or none is
	// said.
	RunAsUser *int64
	// SizeLimit is how many bytes the pod may put here: the smaller of what the volume
	// says and of the pod's own limit of that medium. Zero means no limit.
	SizeLimit int64
	// SELinuxLabel is the label to mount with; empty means none. See LabelMounter.
	SELinuxLabel string
	// Inside are the paths, relative to the volume, at which containers mount other
	// volumes: in a volume that containers cannot write to, the plugin makes folders there.
	Inside []string

	// Again tells that the volume is mounted, as far as this agent knows, and that
	// containers may use it: a failure leaves it as it is.
	Again bool
	// Found tells that the volume was found on disk and that nothing more is known.
	Found bool
}

// Mounted is a volume as far as containers depend on it.
type Mounted struct {
	// Path is the directory or file on the node; empty for a block volume.
	Path string
	// Device is the device, or a symbolic link to it, of a block volume; empty
	// for a volume with files.
	Device string
	// ReadOnly makes every mount and device of it read-only.
	ReadOnly bool
	// Relabel asks the runtime to give the content the container's SELinux
	// label: the content is the agent's own, and was not mounted with a label.
	// It counts only on nodes with SELinux.
	Relabel bool
	// RefreshAt is when the content has to be made anew at the latest, by another Mount,
	// as that of a token that expires. Zero means never.
	RefreshAt time.Time
}

// Unmount is what is known about a volume that is to be unmounted.
type Unmount struct {
	Pod types.UID
	// Name is Spec.Name.
	Name string
	// Dir and StateDir are those of Mount.
	Dir, StateDir string
	// Block tells that it is a device and not a file system.
	Block bool
}

// Remounter is a Plugin of which volumes are mounted again at each sync of their pod,
// so that their content is brought up to date. That must cost next to nothing if there
// is nothing to do.
type Remounter interface {
	Remounts(spec *Spec) bool
}

// Dependent is a Plugin of which volumes have the content of API objects. They are
// mounted again as soon as one of these changes.
type Dependent interface {
	// Objects names them. It is pure.
	Objects(pod *v1.Pod, spec *Spec) []Object
}

// Stager is a Plugin of which some volumes are shared by the pods of a node: they are
// staged once, before the first pod mounts them, and unstaged after the last has
// unmounted. Methods are not called at the same time for one volume, nor while a pod
// mounts or unmounts it.
type Stager interface {
	// VolumeID names a shared volume on the node. Empty means that each pod has its own
	// and nothing is staged.
	VolumeID(spec *Spec) string
	// Stage makes the volume ready for Mount, and returns the path that Mount gets as
	// Staged. It is idempotent as Mount is, and marks errors the same way.
	Stage(ctx context.Context, s Stage) (path string, err error)
	// Unstage takes away what Stage may have made. That there was nothing is no error.
	Unstage(ctx context.Context, id string) error
	// Staged names every volume of which Stage may have left something, from what is on
	// disk.
	Staged(ctx context.Context) (ids []string, err error)
}

// Stage is what a Stager needs to know.
type Stage struct {
	ID   string
	Spec *Spec
	// DevicePath is where the volume was attached; empty if it was not, or if that is
	// the plugin's business.
	DevicePath string
	// FSGroup and SELinuxLabel are those of the first pod, as in Mount.
	FSGroup      *int64
	SELinuxLabel string
	// Found is as in Mount.
	Found bool
}

// Attachable is a Stager of which volumes are attached to the node by somebody else.
type Attachable interface {
	// Attaches tells whether a volume has to be attached before it is staged.
	Attaches(ctx context.Context, spec *Spec) (bool, error)
}

// Expander is a Plugin that can make a mounted volume larger.
type Expander interface {
	// Expand grows the volume on the node to its claim's size, and returns the size it
	// has then. staged and dir are where it is; both may be in use.
	Expand(ctx context.Context, spec *Spec, staged, dir string) (size int64, err error)
}

// Owner is a Plugin that can tell from the disk whose a volume is, when no pod names it
// any more: which PersistentVolume's folder it is.
type Owner interface {
	// VolumeIDOf is the VolumeID of the volume with a folder dir, empty if it is not
	// shared.
	VolumeIDOf(dir string) (id string, err error)
}

// LabelMounter is a Plugin that can have the kernel show all files of a volume with one
// SELinux label (the option context=): no file has to be relabelled. That is asked for
// with Mount.SELinuxLabel and Stage.SELinuxLabel, and only for volumes of which one pod
// at a time has the use (ReadWriteOncePod), if the pod does not want it otherwise
// (seLinuxChangePolicy) and its containers agree (KEP-1710).
type LabelMounter interface {
	// MountsLabel tells whether it can for this volume. It answers from memory.
	MountsLabel(spec *Spec) (bool, error)
}
