package volume

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fs"
)

// Spec is a volume of a pod as plugins see it: one that the pod's spec describes, or a
// PersistentVolume that it claims. It is not changed once it is made.
type Spec struct {
	// Name names the volume's folder: the volume's name in the pod's spec, or that of
	// the PersistentVolume.
	Name string
	// Inline is the volume's source in the pod's spec; nil for a persistent volume.
	Inline *v1.VolumeSource
	// Persistent is the volume that the pod claims; nil for one that the pod describes.
	Persistent *v1.PersistentVolume
	// ReadOnly tells that the pod claims the volume for reading only.
	ReadOnly bool
}

// Block tells whether the volume is a device and not a file system.
func (s *Spec) Block() bool {
	p := s.Persistent
	return p != nil && p.Spec.VolumeMode != nil && *p.Spec.VolumeMode == v1.PersistentVolumeBlock
}

// MountOptions are those of a persistent volume.
func (s *Spec) MountOptions() []string {
	if s.Persistent == nil {
		return nil
	}
	return s.Persistent.Spec.MountOptions
}

// Check refuses a spec that no plugin could take: without a name that can be that of a
// folder, or not with exactly one source.
func (s *Spec) Check() error {
	switch {
	case s == nil:
		return errors.New("volume: the spec is nil")
	case (s.Inline == nil) == (s.Persistent == nil):
		return fmt.Errorf("volume %q: the spec has not exactly one of Inline and Persistent", s.Name)
	}
	return fs.CheckName("volume", s.Name)
}

// ID is how the agent knows a volume: one of a pod by the pod's UID, one that pods
// share by what its plugin says (Stager.VolumeID). It is comparable.
type ID struct {
	Plugin string
	// Pod is empty for a volume that pods share.
	Pod types.UID
	// Volume is Spec.Name, or what Stager.VolumeID says.
	Volume string
}

// String is the name under which nodes report volumes that are in use:
// "kubernetes.io/csi/driver^handle".
func (id ID) String() string {
	if id.Pod == "" {
		return id.Plugin + "/" + id.Volume
	}
	return id.Plugin + "/" + string(id.Pod) + "-" + id.Volume
}

// Object names an API object on which the content of volumes depends.
type Object struct {
	// Kind is "ConfigMap", "Secret", "ServiceAccount", "ClusterTrustBundle" or "CSIDriver".
	Kind string
	// Namespace is empty for the last two, and Name for all objects of a kind.
	Namespace, Name string
}

// String is "ConfigMap default/web".
func (o Object) String() string {
	return o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// SubPath names a part of a volume.
type SubPath struct {
	PodUID    types.UID
	Container string
	// Index is the position of the mount in the container's volumeMounts.
	Index int
	// Volume is the volume's name in the pod's spec, VolumePath where it is.
	Volume, VolumePath string
	// Path is relative and has no "..", but may lead through symbolic links.
	Path string
}
