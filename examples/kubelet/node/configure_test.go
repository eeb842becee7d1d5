package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

func TestConfigure(t *testing.T) {
	var k kubeletv1beta1.KubeletConfiguration
	c, g, err := Configure(Flags{}, &k)
	require.NoError(t, err)
	require.Equal(t, Config{Labels: map[string]string{}, ControllerAttach: true}, c)
	require.EqualValues(t, 50, g.MaxImages)

	no, all := false, int32(-1)
	k.RegisterNode, k.EnableControllerAttachDetach, k.ProviderID, k.NodeStatusMaxImages = &no, &no, "cloud://n", &all
	k.RegisterWithTaints = []v1.Taint{{Key: "a", Effect: v1.TaintEffectNoSchedule}}
	k.NodeStatusUpdateFrequency = metav1.Duration{Duration: time.Minute}
	c, g, err = Configure(Flags{NodeIP: "192.0.2.1", NodeLabels: "a=b", CloudProvider: "external"}, &k)
	require.NoError(t, err)
	require.True(t, c.NoRegister)
	require.False(t, c.ControllerAttach)
	require.True(t, c.Addressing.External)
	require.Equal(t, "cloud://n", c.ProviderID)
	require.Equal(t, k.RegisterWithTaints, c.Taints)
	require.Equal(t, map[string]string{"a": "b"}, c.Labels)
	require.Equal(t, "192.0.2.1", c.Addressing.IPs[0].String())
	require.Equal(t, time.Minute, c.Update)
	require.EqualValues(t, -1, g.MaxImages)

	// All that is wrong is named.
	few := int32(-2)
	bad := kubeletv1beta1.KubeletConfiguration{
		RegisterWithTaints: []v1.Taint{{Key: "a"}}, MaxPods: -1, PodsPerCore: -1, NodeStatusMaxImages: &few, NodeLeaseDurationSeconds: -1,
		NodeStatusUpdateFrequency: metav1.Duration{Duration: -1}, NodeStatusReportFrequency: metav1.Duration{Duration: -1},
		KubeReserved: map[string]string{"cpu": "x"},
	}
	_, _, err = Configure(Flags{NodeIP: "x", NodeLabels: "=", CloudProvider: "x"}, &bad)
	for _, field := range []string{
		"--node-ip", "--node-labels", "--cloud-provider", "--register-with-taints", "maxPods", "podsPerCore", "nodeStatusMaxImages",
		"nodeLeaseDurationSeconds", "nodeStatusUpdateFrequency", "nodeStatusReportFrequency", "kubeReserved[cpu]",
	} {
		require.ErrorContains(t, err, field)
	}
}
