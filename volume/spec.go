package volume

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fs"
)

// Spec is the plugins' view of a pod's volume: a volume source of the pod's spec, or a
// PersistentVolume that the pod claims. It is immutable.
type Spec struct {
	// Name is the name of the volume's folder: the volume's name in the pod's spec, or the name
	// of the PersistentVolume.
	Name string
	// Inline is the volume's source in the pod's spec. It is nil for a persistent volume.
	Inline *v1.VolumeSource
	// Persistent is the PersistentVolume that the pod claims. It is nil for an inline volume.
	Persistent *v1.PersistentVolume
	// ReadOnly is true if the pod claims the volume for reading only.
	ReadOnly bool
}

// Block reports whether the volume is a device without a file system.
func (s *Spec) Block() bool {
	p := s.Persistent
	return p != nil && p.Spec.VolumeMode != nil && *p.Spec.VolumeMode == v1.PersistentVolumeBlock
}

// MountOptions returns the mount options of a persistent volume.
func (s *Spec) MountOptions() []string {
	if s.Persistent == nil {
		return nil
	}
	return s.Persistent.Spec.MountOptions
}

// Check returns an error if the spec is nil, has not exactly one source, or has a name that is
// no valid folder name.
func (s *Spec) Check() error {
	switch {
	case s == nil:
		return errors.New("volume: the spec is nil")
	case (s.Inline == nil) == (s.Persistent == nil):
		return fmt.Errorf("volume %q: the spec must have exactly one of Inline and Persistent", s.Name)
	}
	return fs.CheckName("volume", s.Name)
}

// ID identifies a volume on the node: a pod's volume by the pod's UID, a shared volume by the
// id from its plugin (Stager.VolumeID). It is comparable.
type ID struct {
	Plugin string
	// Pod is empty for a volume that pods share.
	Pod types.UID
	// Volume is Spec.Name, or for a shared volume the result of Stager.VolumeID.
	Volume string
}

// String returns the name under which nodes report volumes in use:
// "kubernetes.io/csi/driver^handle".
func (id ID) String() string {
	if id.Pod == "" {
		return id.Plugin + "/" + id.Volume
	}
	return id.Plugin + "/" + string(id.Pod) + "-" + id.Volume
}

// Object names an API object with content of volumes.
type Object struct {
	// Kind is "ConfigMap", "Secret", "ServiceAccount", "ClusterTrustBundle" or "CSIDriver".
	Kind string
	// Namespace is empty for the last two kinds. An empty Name means all objects of a kind.
	Namespace, Name string
}

// String returns the kind, namespace and name: "ConfigMap default/web".
func (o Object) String() string {
	return o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// SubPath names a part of a volume that a container mounts.
type SubPath struct {
	PodUID    types.UID
	Container string
	// Index is the position of the mount in the container's volumeMounts.
	Index int
	// Volume is the volume's name in the pod's spec. VolumePath is the volume's path on the
	// node.
	Volume, VolumePath string
	// Path is relative and without "..". It may contain symbolic links.
	Path string
}
