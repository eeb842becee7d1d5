package pods

import (
	"context"
	"encoding/json"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/internal/podfacts"
)

// killSpec returns the spec for a container's stop: from the pod, or else from the container's
// annotations. Without either, both results are nil. An orphan's container is nil unless Restore
// is set.
func (m *Manager) killSpec(ctx context.Context, k podKill, c actions.ContainerKill) (*v1.Pod, *v1.Container) {
	spec := podfacts.Container(k.pod, c.Name)
	if spec != nil || k.pod == nil && !k.restore {
		return k.pod, spec
	}
	response, err := m.cfg.Runtime.ContainerStatus(ctx, c.ID.ID, false)
	if err != nil || response.GetStatus() == nil {
		// The stop continues with the available spec. If the runtime is unavailable,
		// StopContainer fails, too.
		if !cri.IsNotFound(err) && ctx.Err() == nil {
			m.log.Warn("stopping a container without its preStop handler", "pod", k.identity, "container", c.Name, "err", err)
		}
		return k.pod, nil
	}
	pod, container := restoreSpec(response.Status)
	if k.pod != nil {
		pod = k.pod
	}
	return pod, container
}

// restoreSpec builds a pod and container from a container's labels and annotations, as far as a
// stop needs them. It skips missing and malformed values. It is pure.
func restoreSpec(s *runtimeapi.ContainerStatus) (*v1.Pod, *v1.Container) {
	names, annotations := s.GetLabels(), s.GetAnnotations()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: names[labels.PodName], Namespace: names[labels.PodNamespace], UID: types.UID(names[labels.PodUID]),
			DeletionGracePeriodSeconds: annotatedSeconds(annotations, labels.AnnotationPodDeletionGracePeriod),
		},
		Spec: v1.PodSpec{TerminationGracePeriodSeconds: annotatedSeconds(annotations, labels.AnnotationPodTerminationGrace)},
	}
	container := &v1.Container{Name: names[labels.ContainerName]}
	var handler v1.LifecycleHandler
	if text := annotations[labels.AnnotationPreStopHandler]; text != "" && json.Unmarshal([]byte(text), &handler) == nil {
		container.Lifecycle = &v1.Lifecycle{PreStop: &handler}
	}
	var ports []v1.ContainerPort
	if text := annotations[labels.AnnotationPorts]; text != "" && json.Unmarshal([]byte(text), &ports) == nil {
		container.Ports = ports // a handler may refer to a port by name
	}
	return pod, container
}

func annotatedSeconds(annotations map[string]string, key string) *int64 {
	n, err := strconv.ParseInt(annotations[key], 10, 64)
	if err != nil {
		return nil
	}
	return &n
}
