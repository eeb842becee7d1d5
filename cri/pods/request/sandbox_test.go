package request

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestSandboxConfig(t *testing.T) {
	h := newHarness(t)
	h.cfg.CgroupParent = func(pod *v1.Pod) string { return "/kubepods/pod" + string(pod.UID) }
	h.restart()
	pod := testPod("a")
	pod.Annotations = map[string]string{"x": "y"}
	pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "net/ipv4/conf/eth0.1/rp_filter", Value: "1"}, {Name: "kernel.shm_rmid_forced", Value: "0"}}}
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{
		{Name: "http", ContainerPort: 80, HostPort: 8080, Protocol: v1.ProtocolTCP},
		{Name: "http", ContainerPort: 81, HostPort: 8081},
		{ContainerPort: 53, HostPort: 53, Protocol: v1.ProtocolUDP, HostIP: "127.0.0.1"},
		{ContainerPort: 53, HostPort: 53, Protocol: v1.ProtocolUDP, HostIP: "127.0.0.1"},
	}
	got, err := h.b.Sandbox(pod, 3)
	require.NoError(t, err)
	require.EqualValues(t, 3, got.Metadata.Attempt)
	require.Equal(t, "web", got.Hostname)
	require.Equal(t, filepath.Join(h.dir, "pods", "shop_web_0d1e"), got.LogDirectory)
	require.Equal(t, "/kubepods/pod0d1e", got.Linux.CgroupParent)
	require.Equal(t, map[string]string{"net.ipv4.conf.eth0/1.rp_filter": "1", "kernel.shm_rmid_forced": "0"}, got.Linux.Sysctls)
	require.Equal(t, map[string]string{"x": "y"}, got.Annotations)
	require.Len(t, got.PortMappings, 2)
	require.Equal(t, runtimeapi.Protocol_UDP, got.PortMappings[1].Protocol)
	require.Equal(t, []string{"10.0.0.1"}, got.DnsConfig.Servers)
	pod.Spec.HostNetwork = true
	got, err = h.b.Sandbox(pod, 3)
	require.NoError(t, err)
	require.Empty(t, got.Hostname)
	require.Equal(t, []string{"192.0.2.1"}, h.b.PodIPs(pod, nil))
}

func TestHostname(t *testing.T) {
	long := strings.Repeat("x", 62) + "-y"
	for _, tc := range []struct {
		name string
		spec v1.PodSpec
		want string
	}{
		{"name", v1.PodSpec{}, strings.Repeat("x", 62)},
		{"spec", v1.PodSpec{Hostname: "h"}, "h"},
		{"override", v1.PodSpec{Hostname: "h", HostnameOverride: ptr("o.example"), Subdomain: "s", SetHostnameAsFQDN: ptr(true)}, "o.example"},
		{"fqdn", v1.PodSpec{Hostname: "h", Subdomain: "s", SetHostnameAsFQDN: ptr(true)}, "h.s.shop.svc.cluster.local"},
		{"override is cut", v1.PodSpec{HostnameOverride: ptr(strings.Repeat("o", 62) + ".example")}, strings.Repeat("o", 62)},
		{"bad override", v1.PodSpec{HostnameOverride: ptr("No")}, ""},
		{"bad hostname", v1.PodSpec{Hostname: "a.b"}, ""},
		{"bad subdomain", v1.PodSpec{Hostname: "a", Subdomain: "b.c"}, ""},
		{"too long", v1.PodSpec{Subdomain: "s", SetHostnameAsFQDN: ptr(true)}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod()
			pod.Name, pod.Spec = long, tc.spec
			got, err := hostname(pod, "cluster.local")
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.want == "", err != nil)
		})
	}
}
