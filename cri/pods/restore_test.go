package pods

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/labels"
)

// Annotations may have been written by anybody: what is good in them counts, what
// is bad is as if it was not there, and nothing else comes of it.
func FuzzRestoreSpec(f *testing.F) {
	f.Add("30", "5", `{"exec":{"command":["sh"]}}`, `[{"name":"web","containerPort":80}]`)
	f.Add("", "-1", `{"sleep":{"seconds":3}}`, ``)
	f.Add("x", "99999999999999999999", `{"exec":`, `{"name":1}`)
	f.Add("0", "1 ", `null`, `null`)
	f.Fuzz(func(t *testing.T, termination, deletion, handler, ports string) {
		status := &runtimeapi.ContainerStatus{
			Labels: map[string]string{labels.PodName: "web", labels.PodNamespace: "shop", labels.PodUID: "0d1e", labels.ContainerName: "a"},
			Annotations: map[string]string{
				labels.AnnotationPodTerminationGrace: termination, labels.AnnotationPodDeletionGracePeriod: deletion,
				labels.AnnotationPreStopHandler: handler, labels.AnnotationPorts: ports,
			},
		}
		pod, container := restoreSpec(status)
		require.Equal(t, "shop/web(0d1e) a", identityOf(pod).String()+" "+container.Name)
		grace := graceSeconds(pod, container, "", nil)
		require.True(t, grace >= 0 && grace <= maxGraceSeconds)
		var want v1.LifecycleHandler
		if handler != "" && json.Unmarshal([]byte(handler), &want) == nil {
			require.Equal(t, &want, container.Lifecycle.PreStop)
		} else {
			require.Nil(t, container.Lifecycle)
		}
	})
}

func TestRestoreSpecOfNothing(t *testing.T) {
	pod, container := restoreSpec(nil)
	require.Equal(t, &v1.Pod{}, pod)
	require.Equal(t, &v1.Container{}, container)
}
