// Package labels has the names of the labels and annotations of pods in a container runtime, as
// the kubelet uses them, and identifies the pod of a listed sandbox or container.
package labels

import (
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/fs"
)

// Labels on sandboxes and containers.
const (
	PodName      = "io.kubernetes.pod.name"
	PodNamespace = "io.kubernetes.pod.namespace"
	PodUID       = "io.kubernetes.pod.uid"
	// ContainerName is only on containers.
	ContainerName = "io.kubernetes.container.name"
)

// AnnotationSource is the annotation of pods with their source, such as "file". Sandboxes have the
// annotations of their pod.
const AnnotationSource = "kubernetes.io/config.source"

// Annotations on containers. They allow a restarted agent to evaluate and stop a container whose
// spec no longer exists.
const (
	AnnotationHash                     = "io.kubernetes.container.hash"
	AnnotationRestartCount             = "io.kubernetes.container.restartCount"
	AnnotationTerminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationPodDeletionGracePeriod   = "io.kubernetes.pod.deletionGracePeriod"
	AnnotationPodTerminationGrace      = "io.kubernetes.pod.terminationGracePeriod"
	AnnotationPreStopHandler           = "io.kubernetes.container.preStopHandler"
	AnnotationPorts                    = "io.kubernetes.container.ports"
)

// Pod identifies a pod in the runtime.
type Pod struct {
	UID             types.UID
	Name, Namespace string
}

// String returns the name for logs and messages.
func (p Pod) String() string { return p.Namespace + "/" + p.Name + "(" + string(p.UID) + ")" }

// usable reports whether a name or ID that the runtime reports can be part of a file's name.
func usable(names ...string) bool {
	for _, name := range names {
		if name != "" && fs.CheckName("", name) != nil {
			return false
		}
	}
	return true
}

// OfSandbox returns the pod of a listed sandbox. ok is false for sandboxes without a kubelet's
// labels, metadata or ID, and for names that cannot be part of a path.
func OfSandbox(sb *runtimeapi.PodSandbox) (pod Pod, ok bool) {
	meta, uid := sb.GetMetadata(), sb.GetLabels()[PodUID]
	if meta == nil || uid == "" || sb.Id == "" || !usable(sb.Id, uid, meta.Name, meta.Namespace) {
		return Pod{}, false
	}
	return Pod{UID: types.UID(uid), Name: meta.Name, Namespace: meta.Namespace}, true
}

// OfContainer returns the pod of a listed container, and the container's name in it. ok is false
// for containers without a kubelet's labels, metadata, image or ID, and for names that cannot be
// part of a path.
func OfContainer(c *runtimeapi.Container) (pod Pod, container string, ok bool) {
	uid, name := c.GetLabels()[PodUID], c.GetLabels()[ContainerName]
	if c.GetMetadata() == nil || c.GetImage() == nil || uid == "" || name == "" || c.Id == "" ||
		!usable(c.Id, uid, name, c.Labels[PodName], c.Labels[PodNamespace]) {
		return Pod{}, "", false
	}
	return Pod{UID: types.UID(uid), Name: c.Labels[PodName], Namespace: c.Labels[PodNamespace]}, name, true
}
