// Package labels has the names of the labels and annotations by which pods are
// found in a container runtime, and reads from them to which pod something belongs.
// The names are those of the kubelet.
package labels

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
