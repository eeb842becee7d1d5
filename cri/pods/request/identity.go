package request

import (
	"encoding/json"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
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

// containerAnnotations lays what this package writes over what devices bring.
func containerAnnotations(in Instance, devices map[string]string) map[string]string {
	pod, c := in.Pod, in.Container
	out := maps.Clone(devices)
	if out == nil {
		out = make(map[string]string, 8)
	}
	out[AnnotationHash] = strconv.FormatUint(podfacts.Hash(c), 16)
	out[AnnotationRestartCount] = strconv.FormatInt(int64(in.RestartCount), 10)
	out[AnnotationTerminationMessagePath] = c.TerminationMessagePath
	out[AnnotationTerminationMessagePolicy] = string(c.TerminationMessagePolicy)
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		out[AnnotationPodDeletionGracePeriod] = strconv.FormatInt(*s, 10)
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		out[AnnotationPodTerminationGrace] = strconv.FormatInt(*s, 10)
	}
	// These are plain structs: marshalling them cannot fail.
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		b, _ := json.Marshal(c.Lifecycle.PreStop)
		out[AnnotationPreStopHandler] = string(b)
	}
	if len(c.Ports) > 0 {
		b, _ := json.Marshal(c.Ports)
		out[AnnotationPorts] = string(b)
	}
	return out
}

// podRef is the object that events of a pod are recorded on.
func podRef(pod *v1.Pod) v1.ObjectReference {
	return v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1",
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion,
	}
}

// podString is how messages name the pod.
func podString(pod *v1.Pod) string {
	return pod.Namespace + "/" + pod.Name + "(" + string(pod.UID) + ")"
}
