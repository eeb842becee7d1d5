package request

import (
	"encoding/json"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/internal/podfacts"
)

// podLabels returns the labels that identify the pod of an object in the runtime.
func podLabels(pod *v1.Pod) map[string]string {
	return map[string]string{
		labels.PodName:      pod.Name,
		labels.PodNamespace: pod.Namespace,
		labels.PodUID:       string(pod.UID),
	}
}

// sandboxLabels returns the pod's own labels together with podLabels and the owner's, which
// override them.
func (b *Builder) sandboxLabels(pod *v1.Pod) map[string]string {
	out := maps.Clone(pod.Labels)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, podLabels(pod))
	b.cfg.Owner.Label(out)
	return out
}

func (b *Builder) containerLabels(pod *v1.Pod, c *v1.Container) map[string]string {
	out := podLabels(pod)
	out[labels.ContainerName] = c.Name
	b.cfg.Owner.Label(out)
	return out
}

// containerAnnotations returns the annotations of devices together with the ones of this package,
// which override them.
func containerAnnotations(in Instance, devices map[string]string) map[string]string {
	pod, c := in.Pod, in.Container
	out := maps.Clone(devices)
	if out == nil {
		out = make(map[string]string, 8)
	}
	out[labels.AnnotationHash] = strconv.FormatUint(podfacts.Hash(c), 16)
	out[labels.AnnotationRestartCount] = strconv.FormatInt(int64(in.RestartCount), 10)
	out[labels.AnnotationTerminationMessagePath] = c.TerminationMessagePath
	out[labels.AnnotationTerminationMessagePolicy] = string(c.TerminationMessagePolicy)
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		out[labels.AnnotationPodDeletionGracePeriod] = strconv.FormatInt(*s, 10)
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		out[labels.AnnotationPodTerminationGrace] = strconv.FormatInt(*s, 10)
	}
	// Plain structs: marshalling cannot fail.
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		b, _ := json.Marshal(c.Lifecycle.PreStop)
		out[labels.AnnotationPreStopHandler] = string(b)
	}
	if len(c.Ports) > 0 {
		b, _ := json.Marshal(c.Ports)
		out[labels.AnnotationPorts] = string(b)
	}
	return out
}
