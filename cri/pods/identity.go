package pods

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
)

// Labels on sandboxes and containers.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
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

// podLabels are the labels that tie an object of the runtime to a pod.
func podLabels(pod *v1.Pod) map[string]string {
	return map[string]string{
		LabelPodName:      pod.Name,
		LabelPodNamespace: pod.Namespace,
		LabelPodUID:       string(pod.UID),
	}
}

// sandboxLabels are the pod's own labels; the ones that tie the sandbox to the
// pod win over them.
func sandboxLabels(pod *v1.Pod) map[string]string {
	labels := maps.Clone(pod.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, podLabels(pod))
	return labels
}

func containerLabels(pod *v1.Pod, c *v1.Container) map[string]string {
	labels := podLabels(pod)
	labels[LabelContainerName] = c.Name
	return labels
}

func containerAnnotations(pod *v1.Pod, c *v1.Container, restartCount int32) (map[string]string, error) {
	out := map[string]string{
		AnnotationHash:                     formatHash(Hash(c)),
		AnnotationRestartCount:             strconv.FormatInt(int64(restartCount), 10),
		AnnotationTerminationMessagePath:   c.TerminationMessagePath,
		AnnotationTerminationMessagePolicy: string(c.TerminationMessagePolicy),
	}
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		out[AnnotationPodDeletionGracePeriod] = strconv.FormatInt(*s, 10)
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		out[AnnotationPodTerminationGrace] = strconv.FormatInt(*s, 10)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		b, err := json.Marshal(c.Lifecycle.PreStop)
		if err != nil {
			return nil, fmt.Errorf("preStop handler: %w", err)
		}
		out[AnnotationPreStopHandler] = string(b)
	}
	if len(c.Ports) > 0 {
		b, err := json.Marshal(c.Ports)
		if err != nil {
			return nil, fmt.Errorf("ports: %w", err)
		}
		out[AnnotationPorts] = string(b)
	}
	return out, nil
}

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

// containerRef is the object that events of a regular container are recorded on.
func (p podIdentity) containerRef(name string) v1.ObjectReference {
	ref := p.ref()
	ref.FieldPath = "spec.containers{" + name + "}"
	return ref
}
