package request

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

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
		{"empty override", v1.PodSpec{Hostname: "h", HostnameOverride: ptr("")}, "h"},
		{"fqdn", v1.PodSpec{Hostname: "h", Subdomain: "s", SetHostnameAsFQDN: ptr(true)}, "h.s.shop.svc.cluster.local"},
		{"override is cut", v1.PodSpec{HostnameOverride: ptr(strings.Repeat("o", 62) + ".example")}, strings.Repeat("o", 62)},
		{"bad override", v1.PodSpec{HostnameOverride: ptr("No")}, ""},
		{"bad hostname", v1.PodSpec{Hostname: "a.b"}, ""},
		{"bad subdomain", v1.PodSpec{Hostname: "a", Subdomain: "b.c"}, ""},
		{"as long as can be", v1.PodSpec{Hostname: strings.Repeat("h", 63)}, strings.Repeat("h", 63)},
		{"full name as long as can be", v1.PodSpec{Hostname: strings.Repeat("h", 64-len(".s.shop.svc.cluster.local")), Subdomain: "s", SetHostnameAsFQDN: ptr(true)},
			strings.Repeat("h", 64-len(".s.shop.svc.cluster.local")) + ".s.shop.svc.cluster.local"},
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

// What makes no hostname is an error of the sandbox and of its file of hosts.
func TestNoHostname(t *testing.T) {
	h := newHarness(t)
	pod := testPod()
	pod.Name = strings.Repeat("-", 64)
	_, err := h.b.Sandbox(pod, 0)
	require.ErrorContains(t, err, "makes no hostname")
	_, err = h.b.Hosts(pod, nil)
	require.ErrorContains(t, err, "makes no hostname")
	failed := errors.New("no such file")
	h.cfg.readFile = func(string) ([]byte, error) { return nil, failed }
	h.restart()
	pod.Spec.HostNetwork = true
	_, err = h.b.Hosts(pod, nil)
	require.ErrorIs(t, err, failed)
}

// A sandbox is configured again as it was, and nobody is told of it again.
func TestSandboxAgain(t *testing.T) {
	h := newHarness(t)
	pod := testPod("a")
	pod.Spec.DNSPolicy = v1.DNSClusterFirst // without a cluster's DNS
	want, err := h.b.Sandbox(pod, 3)
	require.NoError(t, err)
	require.NotEmpty(t, h.events)
	h.events = nil
	got, err := h.b.SandboxAgain(pod, 3)
	require.NoError(t, err)
	require.Equal(t, want.String(), got.String())
	require.Empty(t, h.events)
}

func TestBadPorts(t *testing.T) {
	h := newHarness(t)
	for want, port := range map[string]v1.ContainerPort{
		"spec.containers[1].ports[0].hostPort: -1":         {ContainerPort: 1, HostPort: -1},
		"spec.containers[1].ports[0].hostPort: 65536":      {ContainerPort: 1, HostPort: 65536},
		"spec.containers[1].ports[0].containerPort: -1":    {ContainerPort: -1},
		"spec.containers[1].ports[0].containerPort: 70000": {ContainerPort: 70000},
		`spec.containers[1].ports[0].protocol: unknown`:    {ContainerPort: 1, Protocol: "IPX"},
	} {
		pod := testPod("a", "b")
		pod.Spec.Containers[1].Ports = []v1.ContainerPort{port}
		_, err := h.b.Sandbox(pod, 0)
		require.ErrorContains(t, err, want)
	}
	pod := testPod("a")
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 65535, HostPort: 65535}}
	_, err := h.b.Sandbox(pod, 0)
	require.NoError(t, err, "the last port")
	pod.Spec.InitContainers = []v1.Container{{Ports: []v1.ContainerPort{{}}}}
	_, err = h.b.Sandbox(pod, 0)
	require.ErrorContains(t, err, "spec.initContainers[0].ports[0].containerPort: 0")
}

// 13: the hosts file, for both kinds of network.
func TestHosts(t *testing.T) {
	h := newHarness(t)
	h.cfg.readFile = func(string) ([]byte, error) { return []byte("192.0.2.9\tnode\n"), nil }
	h.cfg.DNS.ClusterDomain = "cluster.local"
	h.restart()
	pod := testPod("a")
	get := func(ips ...string) string {
		content, err := h.b.Hosts(pod, ips)
		require.NoError(t, err)
		return string(content)
	}
	const head = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
	require.Equal(t, head+"10.0.0.2\tweb\nfd00::2\tweb\n", get("10.0.0.2", "fd00::2"))
	pod.Spec.Subdomain = "sub"
	pod.Spec.HostAliases = []v1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"x", "y"}}, {IP: "192.0.2.8", Hostnames: []string{"z"}}}
	const aliases = "\n# Entries added by HostAliases.\n192.0.2.7\tx\ty\n192.0.2.8\tz\n"
	require.Equal(t, head+"10.0.0.2\tweb.sub.shop.svc.cluster.local\tweb\n"+aliases, get("10.0.0.2"))
	pod.Spec.HostNetwork = true
	require.Equal(t, "# Kubernetes-managed hosts file (host network).\n192.0.2.9\tnode\n"+aliases, get())
}
