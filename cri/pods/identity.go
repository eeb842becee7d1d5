package pods

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/pleg"
)

// Labels on sandboxes and containers.
const (
	LabelPodName       = request.LabelPodName
	LabelPodNamespace  = request.LabelPodNamespace
	LabelPodUID        = request.LabelPodUID
	LabelContainerName = request.LabelContainerName
)

// Annotations on containers. With them an agent that restarted can judge and
// stop a container whose spec is gone.
const (
	AnnotationHash                     = request.AnnotationHash
	AnnotationRestartCount             = request.AnnotationRestartCount
	AnnotationTerminationMessagePath   = request.AnnotationTerminationMessagePath
	AnnotationTerminationMessagePolicy = request.AnnotationTerminationMessagePolicy
	AnnotationPodDeletionGracePeriod   = request.AnnotationPodDeletionGracePeriod
	AnnotationPodTerminationGrace      = request.AnnotationPodTerminationGrace
	AnnotationPreStopHandler           = request.AnnotationPreStopHandler
	AnnotationPorts                    = request.AnnotationPorts
)

// annotatedInt reads a decimal annotation; what is missing or bad counts as 0.
func annotatedInt(annotations map[string]string, key string) int32 {
	n, err := strconv.ParseInt(annotations[key], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// podIdentity is what names a pod in the runtime and in events.
type podIdentity struct {
	UID             types.UID
	Name, Namespace string
	resourceVersion string
}

func identityOf(pod *v1.Pod) podIdentity {
	return podIdentity{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace, resourceVersion: pod.ResourceVersion}
}

func identityOfStatus(s *pleg.PodStatus) podIdentity {
	return podIdentity{UID: s.UID, Name: s.Name, Namespace: s.Namespace}
}

// String is how logs and messages name the pod.
func (p podIdentity) String() string { return p.Namespace + "/" + p.Name + "(" + string(p.UID) + ")" }

// ref is the object that events of the pod are recorded on.
func (p podIdentity) ref() v1.ObjectReference {
	return v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1",
		Namespace: p.Namespace, Name: p.Name, UID: p.UID,
		ResourceVersion: p.resourceVersion,
	}
}
