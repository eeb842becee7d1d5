package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

// The objects and the configuration of a scene are valid YAML without unknown fields.
func TestObjectsAreValid(t *testing.T) {
	t.Setenv("PODWRIGHT_"+"IMAGE_TESTPROG", "127.0.0.1:5000/testprog:v1")
	t.Setenv("PODWRIGHT_"+"IMAGE_BUSYBOX", "127.0.0.1:5000/busybox:v1")
	s := &scene{node: "node-1"}
	manifests := map[string]string{"static": s.static()}
	for name := range podSpecs {
		manifests[name] = s.pod(name)
	}
	ready := 0
	for name, manifest := range manifests {
		var pod v1.Pod
		require.NoError(t, yaml.UnmarshalStrict([]byte(manifest), &pod), name)
		require.Equal(t, name, pod.Name)
		require.Regexp(t, "^127.0.0.1:5000/", pod.Spec.Containers[0].Image)
		if pod.Labels["app"] == "web" {
			ready++
			require.NotNil(t, pod.Spec.Containers[0].ReadinessProbe, name)
		}
	}
	require.Equal(t, 2, ready, "pods of the service")
	var config kubeletconfig.KubeletConfiguration
	require.NoError(t, yaml.UnmarshalStrict(fmt.Appendf(nil, settings, "unix:///c.sock", 10250, "/manifests", "/logs", true), &config))
	require.True(t, config.RotateCertificates)
	require.Equal(t, "/logs", config.PodLogsDir)
}

func TestMissing(t *testing.T) {
	state := objects{
		"pod done":          {"phase": {text: "Succeeded"}, "container c": {text: "terminated"}},
		"endpoints web":     {"pod web": {text: "ready"}, "pod sidecar": {text: "ready"}},
		"endpointslice web": {"pod web": {text: "ready"}, "pod sidecar": {text: "not ready"}},
	}
	for _, pod := range []string{"web", "plain", "sidecar"} {
		state["pod "+pod] = map[string]value{"Ready": {text: "True"}}
	}
	require.Equal(t, []string{"pod static, Ready: True", "endpointslice web, pod sidecar: ready"}, missing(state))
}
