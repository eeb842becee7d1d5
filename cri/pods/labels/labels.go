// Package labels has the names of the labels and annotations by which pods are
// found in a container runtime, and reads from them to which pod something belongs.
// The names are those of the kubelet.
package labels

import (
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Labels on sandboxes and containers.
const (
	PodName      = "io.kubernetes.pod.name"
	PodNamespace = "io.kubernetes.pod.namespace"
	PodUID       = "io.kubernetes.pod.uid"
	// ContainerName is on containers alone.
	ContainerName = "io.kubernetes.container.name"
)

// Annotations on containers. With them an agent that restarted can judge and
// stop a container whose spec is gone.
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

// Pod is what names a pod in the runtime.
type Pod struct {
	UID             types.UID
	Name, Namespace string
}

// String is how logs and messages name the pod.
func (p Pod) String() string { return p.Namespace + "/" + p.Name + "(" + string(p.UID) + ")" }

// OfSandbox tells which pod a listed sandbox belongs to. Sandboxes that no kubelet
// made, or that lack metadata, belong to none.
func OfSandbox(sb *runtimeapi.PodSandbox) (pod Pod, ok bool) {
	meta, uid := sb.GetMetadata(), sb.GetLabels()[PodUID]
	if meta == nil || uid == "" {
		return Pod{}, false
	}
	return Pod{UID: types.UID(uid), Name: meta.Name, Namespace: meta.Namespace}, true
}

// OfContainer tells which pod a listed container belongs to, and which container of
// that it is. Containers that no kubelet made, or that lack metadata or an image,
// belong to none.
func OfContainer(c *runtimeapi.Container) (pod Pod, container string, ok bool) {
	uid, name := c.GetLabels()[PodUID], c.GetLabels()[ContainerName]
	if c.GetMetadata() == nil || c.GetImage() == nil || uid == "" || name == "" {
		return Pod{}, "", false
	}
	return Pod{UID: types.UID(uid), Name: c.Labels[PodName], Namespace: c.Labels[PodNamespace]}, name, true
}
