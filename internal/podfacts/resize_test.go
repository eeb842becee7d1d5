package podfacts

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestResizeMessage(t *testing.T) {
	with := func(cpu string) v1.ResourceRequirements { return v1.ResourceRequirements{Requests: list(cpu, "")} }
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 7}, Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "i", Resources: with("1")}},
		Containers:     []v1.Container{{Name: "a", Resources: with("2")}, {Name: "b"}},
	}}
	const containers = `"initContainers":[{"name":"i","resources":{"requests":{"cpu":"1"}}}],` +
		`"containers":[{"name":"a","resources":{"requests":{"cpu":"2"}}},{"name":"b","resources":{}}],"generation":7`
	require.Equal(t, "Pod resize started: {"+containers+"}", ResizeMessage("Pod resize started", pod, ""))
	pod.Spec.Resources = new(with("3"))
	require.Equal(t, `Pod resize error: {"resources":{"requests":{"cpu":"3"}},`+containers+`,"error":"no"}`, ResizeMessage("Pod resize error", pod, "no"))
}
