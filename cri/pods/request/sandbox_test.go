package request

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestHostname(t *testing.T) {
	long := strings.Repeat("x", 62) + "-y"
	longest := strings.Repeat("h", 64-len(".s.shop.svc."))
	for _, tc := range []struct {
		name string
		spec v1.PodSpec
		want string
	}{
		{"name", v1.PodSpec{}, strings.Repeat("x", 62)},
		{"spec", v1.PodSpec{Hostname: "h"}, "h"},
		{"override", v1.PodSpec{Hostname: "h", HostnameOverride: new("o.example"), Subdomain: "s", SetHostnameAsFQDN: new(true)}, "o.example"},
		{"empty override", v1.PodSpec{Hostname: "h", HostnameOverride: new("")}, "h"},
		{"fqdn", v1.PodSpec{Hostname: "h", Subdomain: "s", SetHostnameAsFQDN: new(true)}, "h.s.shop.svc.cluster.local"},
		{"override is cut", v1.PodSpec{HostnameOverride: new(strings.Repeat("o", 62) + ".example")}, strings.Repeat("o", 62)},
		{"bad override", v1.PodSpec{HostnameOverride: new("No")}, ""},
		{"bad hostname", v1.PodSpec{Hostname: "a.b"}, ""},
		{"bad subdomain", v1.PodSpec{Hostname: "a", Subdomain: "b.c"}, ""},
		{"as long as can be", v1.PodSpec{Hostname: strings.Repeat("h", 63)}, strings.Repeat("h", 63)},
		{"full name as long as can be", v1.PodSpec{Hostname: strings.Repeat("h", 64-len(".s.shop.svc.cluster.local")), Subdomain: "s", SetHostnameAsFQDN: new(true)},
			strings.Repeat("h", 64-len(".s.shop.svc.cluster.local")) + ".s.shop.svc.cluster.local"},
		{"too long", v1.PodSpec{Subdomain: "s", SetHostnameAsFQDN: new(true)}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod()
			pod.Name, pod.Spec = long, tc.spec
			got, err := hostname(pod, "cluster.local")
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.want == "", err != nil)
		})
	}
	for _, tc := range []struct {
		name string
		spec v1.PodSpec
		want string
	}{
		{"short name", v1.PodSpec{Hostname: "h", Subdomain: "s"}, "h"},
		{"fqdn", v1.PodSpec{Hostname: "h", Subdomain: "s", SetHostnameAsFQDN: new(true)}, "h.s.shop.svc."},
		{"fqdn without a subdomain", v1.PodSpec{Hostname: "h", SetHostnameAsFQDN: new(true)}, "h"},
		{"fqdn as long as can be", v1.PodSpec{Hostname: longest, Subdomain: "s", SetHostnameAsFQDN: new(true)}, longest + ".s.shop.svc."},
		{"fqdn too long", v1.PodSpec{Hostname: "h" + longest, Subdomain: "s", SetHostnameAsFQDN: new(true)}, ""},
	} {
		t.Run("without a cluster domain/"+tc.name, func(t *testing.T) {
			pod := testPod()
			pod.Spec = tc.spec
			got, err := hostname(pod, "")
			require.Equal(t, tc.want, got)
			if tc.want == "" {
				require.ErrorContains(t, err, "failed to construct FQDN from pod hostname and cluster domain, FQDN h"+longest+".s.shop.svc. is too long (64 characters is the max, 65 characters requested)")
			}
		})
	}
}

// An impossible host name is an error of the sandbox and of the hosts file.
func TestNoHostname(t *testing.T) {
	h := newHarness(t)
	pod := testPod()
	pod.Name = strings.Repeat("-", 64)
	_, err := h.builder().Sandbox(pod, 0)
	require.ErrorContains(t, err, "gives no valid hostname")
	_, err = h.builder().Hosts(pod, nil)
	require.ErrorContains(t, err, "gives no valid hostname")
	failed := errors.New("no such file")
	h.cfg.readFile = func(string) ([]byte, error) { return nil, failed }
	pod.Spec.HostNetwork = true
	_, err = h.builder().Hosts(pod, nil)
	require.ErrorIs(t, err, failed)
}

// SandboxAgain returns the same configuration and records no events.
func TestSandboxAgain(t *testing.T) {
	h := newHarness(t)
	pod := testPod("a")
	pod.Spec.DNSPolicy = v1.DNSClusterFirst // without a cluster's DNS
	want, err := h.builder().Sandbox(pod, 3)
	require.NoError(t, err)
	require.NotEmpty(t, h.events)
	h.events = nil
	got, err := h.builder().SandboxAgain(pod, 3)
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
		_, err := h.builder().Sandbox(pod, 0)
		require.ErrorContains(t, err, want)
	}
	pod := testPod("a")
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 65535, HostPort: 65535}}
	_, err := h.builder().Sandbox(pod, 0)
	require.NoError(t, err, "the last port")
	pod.Spec.InitContainers = []v1.Container{{Ports: []v1.ContainerPort{{}}}}
	_, err = h.builder().Sandbox(pod, 0)
	require.ErrorContains(t, err, "spec.initContainers[0].ports[0].containerPort: 0")
}

// 13: the hosts file for both kinds of network.
func TestHosts(t *testing.T) {
	h := newHarness(t)
	h.cfg.readFile = func(string) ([]byte, error) { return []byte("192.0.2.9\tnode\n"), nil }
	h.cfg.DNS.ClusterDomain = "cluster.local"
	pod := testPod("a")
	get := func(ips ...string) string {
		content, err := h.builder().Hosts(pod, ips)
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
	h.cfg.DNS.ClusterDomain = ""
	require.Equal(t, head+"10.0.0.2\tweb.sub.shop.svc.\tweb\n"+aliases, get("10.0.0.2"))
	pod.Spec.HostNetwork = true
	require.Equal(t, "# Kubernetes-managed hosts file (host network).\n192.0.2.9\tnode\n"+aliases, get())
}

// TestFullPod covers a pod with most features, to detect changes of this package early. The
// golden records of cri/pods compare each field with the upstream kubelet's request.
func TestFullPod(t *testing.T) {
	h, m := withObjects(t)
	h.cfg.CgroupParent = func(pod *v1.Pod) string { return "/kubepods/pod" + string(pod.UID) }
	h.cfg.DNS.ClusterServers, h.cfg.DNS.ClusterDomain = []string{"10.96.0.10"}, "cluster.local"
	m.SetServices(service("shop", "my-db", "fd00::9", v1.ServicePort{Name: "a-b", Port: 54, Protocol: v1.ProtocolUDP}), service("shop", "portless", "10.0.0.1"))
	pod := testPod("a", "b")
	pod.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/b": "runtime/default"}
	pod.Spec.HostNetwork, pod.Spec.DNSPolicy = true, v1.DNSClusterFirstWithHostNet
	pod.Spec.SecurityContext = &v1.PodSecurityContext{
		RunAsGroup: new(int64(2)), FSGroup: new(int64(3)), SupplementalGroups: []int64{4}, SupplementalGroupsPolicy: new(v1.SupplementalGroupsPolicyStrict),
		Sysctls: []v1.Sysctl{{Name: "net/ipv4/conf/eth0.1/rp_filter", Value: "1"}}, AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined},
	}
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: quantities("cpu", "2"), Limits: quantities("cpu", "4", "memory", "9Mi")}
	pod.Spec.InitContainers = []v1.Container{{Name: "s", RestartPolicy: new(v1.ContainerRestartPolicyAlways), Ports: []v1.ContainerPort{{ContainerPort: 9, HostPort: 9}}}}
	a := &pod.Spec.Containers[0]
	a.Ports = []v1.ContainerPort{ // a duplicate name or key is skipped (#82373)
		{Name: "p", ContainerPort: 1}, {Name: "p", ContainerPort: 2}, {ContainerPort: 3, HostPort: 3, Protocol: v1.ProtocolSCTP},
		{ContainerPort: 3, HostPort: 3, Protocol: v1.ProtocolSCTP}, {ContainerPort: 4, HostPort: 4, HostIP: "::"}, {ContainerPort: 4, HostPort: 4},
	}
	a.SecurityContext = &v1.SecurityContext{
		Privileged: new(true), AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("p")},
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: new("p.json")},
	}
	sandbox, err := h.builder().Sandbox(pod, 3)
	require.NoError(t, err)
	require.EqualValues(t, 3, sandbox.Metadata.Attempt)
	require.Empty(t, sandbox.Hostname)
	require.Equal(t, filepath.Join(h.dir, "pods", "shop_web_0d1e"), sandbox.LogDirectory)
	require.Equal(t, "/kubepods/pod0d1e", sandbox.Linux.CgroupParent)
	require.Equal(t, map[string]string{"net.ipv4.conf.eth0/1.rp_filter": "1"}, sandbox.Linux.Sysctls)
	require.Equal(t, []string{"10.96.0.10"}, sandbox.DnsConfig.Servers)
	require.EqualValues(t, 2048, sandbox.Linux.Resources.CpuShares)
	require.EqualValues(t, 9<<20, sandbox.Linux.Resources.MemoryLimitInBytes)
	require.True(t, sandbox.Linux.SecurityContext.Privileged)
	require.Nil(t, sandbox.Linux.SecurityContext.RunAsGroup, "a group without a user is the containers' alone")
	var ports []string
	for _, p := range sandbox.PortMappings {
		ports = append(ports, fmt.Sprint(p.Protocol, " ", p.HostIp, " ", p.HostPort, ":", p.ContainerPort))
	}
	require.Equal(t, []string{"TCP  0:1", "SCTP  3:3", "TCP :: 4:4", "TCP  4:4", "TCP  9:9"}, ports)

	in := Instance{Pod: pod, Container: a, RestartCount: 12, Image: Image{Ref: "sha256:1", UserSpecified: "busybox:1", UID: new(int64(7))}}
	config, err := h.builder().Container(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, (&runtimeapi.ContainerMetadata{Name: "a", Attempt: 12}).String(), config.Metadata.String())
	require.Equal(t, "a/12.log", config.LogPath)
	security := config.Linux.SecurityContext
	require.EqualValues(t, 7, security.RunAsUser.Value)
	require.EqualValues(t, 2, security.RunAsGroup.Value)
	require.Equal(t, []int64{3, 4}, security.SupplementalGroups)
	require.Equal(t, runtimeapi.SupplementalGroupsPolicy_Strict, security.SupplementalGroupsPolicy)
	require.Equal(t, (&runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "p"}).String(), security.Apparmor.String())
	require.Equal(t, "/var/lib/kubelet/seccomp/p.json", security.Seccomp.LocalhostRef)
	require.Contains(t, fmt.Sprint(config.Envs), "MY_DB_SERVICE_PORT_A_B")
	in.Container = &pod.Spec.Containers[1]
	config, err = h.builder().Container(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, (&runtimeapi.SecurityProfile{}).String(), config.Linux.SecurityContext.Apparmor.String())
	pod.Annotations = nil
	config, err = h.builder().Container(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, runtimeapi.SecurityProfile_Unconfined, config.Linux.SecurityContext.Apparmor.ProfileType)
}
