package pods

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
)

// The addresses that a hook asks for are those of this moment.
func TestPodIPs(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	ips, err := h.seen.PodIPs(t.Context(), pod)
	require.NoError(t, err)
	require.Empty(t, ips, "no sandbox yet")
	got := runPod(t, h, pod)
	require.NotEmpty(t, got.IPs)
	ips, err = h.seen.PodIPs(t.Context(), pod)
	require.NoError(t, err)
	require.Equal(t, got.IPs, ips)
	h.kill(pod, nil)
	ips, err = h.seen.PodIPs(t.Context(), pod)
	require.NoError(t, err)
	require.Empty(t, ips, "its network is gone")

	host := testPod("a")
	host.UID, host.Spec.HostNetwork = "host", true
	h.mustSync(host)
	ips, err = h.seen.PodIPs(t.Context(), host)
	require.NoError(t, err)
	require.Equal(t, []string{"192.0.2.1"}, ips)
	_, err = h.seen.PodIPs(t.Context(), &v1.Pod{})
	require.ErrorContains(t, err, "no UID", "an empty filter would mean every pod")
}
