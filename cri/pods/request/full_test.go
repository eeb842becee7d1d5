package request

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A pod with a bit of everything. Each of its fields is compared with the upstream kubelet's
// request by the golden pods of cri/pods; here is what a change of this package breaks first.
func TestFullPod(t *testing.T) {
	h, m := withObjects(t)
	h.cfg.CgroupParent = func(pod *v1.Pod) string { return "/kubepods/pod" + string(pod.UID) }
	h.cfg.DNS.ClusterServers, h.cfg.DNS.ClusterDomain = []string{"10.96.0.10"}, "cluster.local"
	h.restart()
	m.SetServices(service("shop", "my-db", "fd00::9", v1.ServicePort{Name: "a-b", Port: 54, Protocol: v1.ProtocolUDP}), service("shop", "portless", "10.0.0.1"))
	pod := testPod("a", "b")
	pod.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/b": "runtime/default"}
	pod.Spec.HostNetwork, pod.Spec.DNSPolicy = true, v1.DNSClusterFirstWithHostNet
	pod.Spec.SecurityContext = &v1.PodSecurityContext{
		RunAsGroup: ptr(int64(2)), FSGroup: ptr(int64(3)), SupplementalGroups: []int64{4}, SupplementalGroupsPolicy: ptr(v1.SupplementalGroupsPolicyStrict),
		Sysctls: []v1.Sysctl{{Name: "net/ipv4/conf/eth0.1/rp_filter", Value: "1"}}, AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined},
	}
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: quantities("cpu", "2"), Limits: quantities("cpu", "4", "memory", "9Mi")}
	pod.Spec.InitContainers = []v1.Container{{Name: "s", RestartPolicy: ptr(v1.ContainerRestartPolicyAlways), Ports: []v1.ContainerPort{{ContainerPort: 9, HostPort: 9}}}}
	a := &pod.Spec.Containers[0]
	a.Ports = []v1.ContainerPort{ // what has the name or the key of one before it is left out (#82373)
		{Name: "p", ContainerPort: 1}, {Name: "p", ContainerPort: 2}, {ContainerPort: 3, HostPort: 3, Protocol: v1.ProtocolSCTP},
		{ContainerPort: 3, HostPort: 3, Protocol: v1.ProtocolSCTP}, {ContainerPort: 4, HostPort: 4, HostIP: "::"}, {ContainerPort: 4, HostPort: 4},
	}
	a.SecurityContext = &v1.SecurityContext{
		Privileged: ptr(true), AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: ptr("p")},
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("p.json")},
	}
	sandbox, err := h.b.Sandbox(pod, 3)
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

	in := Instance{Pod: pod, Container: a, RestartCount: 12, Image: Image{Ref: "sha256:1", UserSpecified: "busybox:1", UID: ptr(int64(7))}}
	config, err := h.b.Container(t.Context(), in)
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
	config, err = h.b.Container(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, (&runtimeapi.SecurityProfile{}).String(), config.Linux.SecurityContext.Apparmor.String())
	pod.Annotations = nil
	config, err = h.b.Container(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, runtimeapi.SecurityProfile_Unconfined, config.Linux.SecurityContext.Apparmor.ProfileType)
}
