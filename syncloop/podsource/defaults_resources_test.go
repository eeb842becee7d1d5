package podsource

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultPodResources(t *testing.T) {
	const containers = `
  initContainers:
  - {name: before, image: a, resources: {requests: {cpu: 30m, memory: 70Mi}}}
  - {name: sidecar, image: a, restartPolicy: Always, resources: {requests: {cpu: 5m, memory: 10Mi}}}
  - {name: after, image: a, resources: {requests: {cpu: 8m, memory: 70Mi}}}
  containers:
  - {name: app, image: a, resources: {limits: {cpu: 10m}, requests: {memory: 20Mi, ephemeral-storage: 1Gi}}}
  - {name: other, image: a, resources: {requests: {memory: 5Mi}}}
`
	for given, want := range map[string]string{
		// The CPU of the first init container, the memory of the second with the sidecar's.
		"limits: {cpu: 1, memory: 1Gi}":                                                   "cpu 30m, memory 80Mi",
		"requests: {cpu: 2}, limits: {memory: 1Gi, hugepages-2Mi: 2Mi}":                   "cpu 2, hugepages-2Mi 2Mi, memory 80Mi",
		"requests: {cpu: 40m, memory: 1Gi, hugepages-2Mi: 4Mi}, limits: {cpu: 0.0405001}": "cpu 40m, hugepages-2Mi 4Mi, memory 1Gi",
		"": "",
	} {
		manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  resources: {" + given + "}" + containers
		pod, err := parse([]byte(manifest))
		require.NoError(t, err)
		setDefaults(pod)
		var got []string
		for _, name := range []string{"cpu", "ephemeral-storage", "hugepages-2Mi", "memory"} {
			for at, quantity := range pod.Spec.Resources.Requests {
				if string(at) == name {
					got = append(got, name+" "+quantity.String())
				}
			}
		}
		require.Equal(t, want, strings.Join(got, ", "), given)
	}
	pod, err := parse([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:" + containers))
	require.NoError(t, err)
	setDefaults(pod)
	require.Nil(t, pod.Spec.Resources, "nothing that was not asked for")
}
