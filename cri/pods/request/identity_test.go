package request

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/labels"
)

func TestLabels(t *testing.T) {
	pod := testPod("a")
	pod.Labels[labels.PodUID] = "forged"
	require.Equal(t, map[string]string{
		"app": "web", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.uid": "0d1e",
	}, sandboxLabels(pod))
	require.Equal(t, map[string]string{
		"io.kubernetes.container.name": "a", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.uid": "0d1e",
	}, containerLabels(pod, &pod.Spec.Containers[0]))
	require.Equal(t, "forged", pod.Labels[labels.PodUID], "the pod is not changed")
}

func TestAnnotations(t *testing.T) {
	pod := testPod("a")
	pod.DeletionGracePeriodSeconds = ptr(int64(47))
	pod.Spec.TerminationGracePeriodSeconds = ptr(int64(46))
	c := &pod.Spec.Containers[0]
	c.Ports = []v1.ContainerPort{{ContainerPort: 80, Protocol: v1.ProtocolTCP}}
	c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 3}}}
	devices := map[string]string{"example.com/gpu": "1", labels.AnnotationHash: "forged"}
	got := containerAnnotations(Instance{Pod: pod, Container: c, RestartCount: 45}, devices)
	require.Equal(t, map[string]string{
		"example.com/gpu":                                  "1",
		"io.kubernetes.container.hash":                     "5264866e",
		"io.kubernetes.container.restartCount":             "45",
		"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
		"io.kubernetes.container.terminationMessagePolicy": "File",
		"io.kubernetes.pod.deletionGracePeriod":            "47",
		"io.kubernetes.pod.terminationGracePeriod":         "46",
		"io.kubernetes.container.preStopHandler":           `{"sleep":{"seconds":3}}`,
		"io.kubernetes.container.ports":                    `[{"containerPort":80,"protocol":"TCP"}]`,
	}, got)
	require.Equal(t, "forged", devices[labels.AnnotationHash], "the plugin's map is not changed")
	got = containerAnnotations(Instance{Pod: &v1.Pod{}, Container: &v1.Container{}}, nil)
	require.Len(t, got, 4, "what is not set is not written")
}
