package pods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
)

func TestNewRefuses(t *testing.T) {
	good := Config{Runtime: &recorder{}, Images: &presentImages{}, RuntimeName: "fake"}
	_, err := New(good)
	require.NoError(t, err)
	for field, spoil := range map[string]func(*Config){
		"Runtime":             func(c *Config) { c.Runtime = nil },
		"Images":              func(c *Config) { c.Images = nil },
		"RuntimeName":         func(c *Config) { c.RuntimeName = "" },
		"MaxConcurrentStarts": func(c *Config) { c.MaxConcurrentStarts = -1 },
		"MaxCrashLoopDelay":   func(c *Config) { c.MaxCrashLoopDelay = -1 },
		"StepGrace":           func(c *Config) { c.StepGrace = -1 },
		"LogRoot":             func(c *Config) { c.LogRoot = "relative" },
	} {
		cfg := good
		spoil(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, "Config."+field)
	}
}

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "x", "EMPTY": "", "NEST": "$(A)"}
	lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "x", "-$(A)$(A)-": "-xx-", "$(EMPTY)": "", "$(NEST)": "$(A)",
		"$$(A)": "$(A)", "$$$(A)": "$x", "$$": "$", "$": "$", "a$": "a$", "$A": "$A", "$(B)": "$(B)", "$(A": "$(A", "$()": "$()",
		"$(A$(A)": "$(A$(A)", "$$$": "$$",
	} {
		require.Equal(t, want, expand(in, lookup), in)
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"$(A)", "$$(A", "$", "($)$"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		unknown := func(string) (string, bool) { return "", false }
		got := expand(text, unknown)
		if !strings.Contains(text, "$$") {
			require.Equal(t, text, got, "unknown names stay as they are")
		}
	})
}

// 6.4: order, references, fields.
func TestEnv(t *testing.T) {
	pod := testPod("a")
	pod.Annotations = map[string]string{"b": "2", "a": "say \"1\""}
	pod.Spec.ServiceAccountName = "sa"
	field := func(name, path string) v1.EnvVar {
		return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}}
	}
	c := v1.Container{Env: []v1.EnvVar{
		{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)$(C)"}, {Name: "C", Value: "3"}, {Name: "A", Value: "$(A)1"},
		field("NAME", "metadata.name"), field("NS", "metadata.namespace"), field("UID", "metadata.uid"), field("SA", "spec.serviceAccountName"),
		field("APP", "metadata.labels['app']"), field("ANN", "metadata.annotations"), field("NONE", "metadata.annotations['x']"),
		field("NODE", "spec.nodeName"), field("IP", "status.podIP"), field("IPS", "status.podIPs"), field("HOST", "status.hostIP"), field("HOSTS", "status.hostIPs"),
	}}
	f := fields{nodeName: "node-1", hostIPs: []string{"192.0.2.1", "2001:db8::1"}, podIPs: []string{"10.0.0.2", "fd00::2"}}
	env, err := makeEnv(pod, &c, f)
	require.NoError(t, err)
	var got []string
	for _, kv := range env.keyValues() {
		got = append(got, kv.Key+"="+string(kv.Value))
	}
	require.Equal(t, []string{
		"A=11", "B=1$(C)", "C=3", "NAME=web", "NS=shop", "UID=0d1e", "SA=sa", "APP=web", "ANN=a=\"say \\\"1\\\"\"\nb=\"2\"", "NONE=",
		"NODE=node-1", "IP=10.0.0.2", "IPS=10.0.0.2,fd00::2", "HOST=192.0.2.1", "HOSTS=192.0.2.1,2001:db8::1",
	}, got)
	require.Equal(t, []string{"11", "$(X)"}, env.expandAll([]string{"$(A)", "$(X)"}))
	_, err = makeEnv(pod, &v1.Container{Env: []v1.EnvVar{field("X", "spec.unknown")}}, f)
	require.ErrorContains(t, err, "env X")
	_, err = makeEnv(pod, &v1.Container{Env: []v1.EnvVar{{Name: "X", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{}}}}}, f)
	require.ErrorContains(t, err, "env X")
}

func TestOrderIPs(t *testing.T) {
	both := []string{"10.0.0.2", "fd00::2", "10.0.0.3"}
	require.Equal(t, []string{"10.0.0.2", "fd00::2"}, orderIPs(both, []string{"192.0.2.1"}))
	require.Equal(t, []string{"fd00::2", "10.0.0.2"}, orderIPs(both, []string{"2001:db8::1"}))
	require.Empty(t, orderIPs(nil, nil))
}

func quantities(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// 6.7: the formulas.
func TestContainerResources(t *testing.T) {
	node := Node{CPUQuotaPeriod: 100 * time.Millisecond, MemoryCapacity: 1 << 30}
	withRequests := func(requests, limits v1.ResourceList) *v1.Pod {
		pod := testPod("a")
		pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: requests, Limits: limits}
		return pod
	}
	podLevel := testPod("a")
	podLevel.Spec.Resources = &v1.ResourceRequirements{Limits: quantities("cpu", "1", "memory", "64Mi")}
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		want *runtimeapi.LinuxContainerResources
	}{
		{"nothing", testPod("a"), &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 1000}},
		{
			"request and limit", withRequests(quantities("cpu", "500m", "memory", "256Mi"), quantities("cpu", "1", "memory", "512Mi")),
			&runtimeapi.LinuxContainerResources{CpuShares: 512, CpuPeriod: 100000, CpuQuota: 100000, MemoryLimitInBytes: 512 << 20, OomScoreAdj: 750},
		},
		{"limit only", withRequests(nil, quantities("cpu", "250m")), &runtimeapi.LinuxContainerResources{CpuShares: 256, CpuPeriod: 100000, CpuQuota: 25000, OomScoreAdj: 999}},
		{"tiny limit", withRequests(nil, quantities("cpu", "1m")), &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, CpuQuota: 1000, OomScoreAdj: 999}},
		{"huge request", withRequests(quantities("cpu", "1000"), nil), &runtimeapi.LinuxContainerResources{CpuShares: 262144, CpuPeriod: 100000, OomScoreAdj: 999}},
		{"most of the memory", withRequests(quantities("memory", "1023Mi"), nil), &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 3}},
		{
			"guaranteed", withRequests(quantities("cpu", "1", "memory", "1Mi"), quantities("cpu", "1", "memory", "1Mi")),
			&runtimeapi.LinuxContainerResources{CpuShares: 1024, CpuPeriod: 100000, CpuQuota: 100000, MemoryLimitInBytes: 1 << 20, OomScoreAdj: -997},
		},
		{"pod level", podLevel, &runtimeapi.LinuxContainerResources{CpuShares: 1024, CpuPeriod: 100000, CpuQuota: 100000, MemoryLimitInBytes: 64 << 20, OomScoreAdj: 999}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := containerResources(tc.pod, &tc.pod.Spec.Containers[0], node)
			require.Equal(t, tc.want.String(), got.String())
		})
	}
	pod := withRequests(nil, quantities("memory", "1Mi"))
	got := containerResources(pod, &pod.Spec.Containers[0], Node{NoCPUQuota: true, CgroupV2: true, SwapController: true})
	require.Zero(t, got.CpuPeriod)
	require.Equal(t, map[string]string{"memory.oom.group": "1", "memory.swap.max": "0"}, got.Unified)
	got = containerResources(pod, &pod.Spec.Containers[0], Node{NoCPUQuota: true, SwapController: true, HugePageSizes: []string{"1GB", "2MB"}})
	require.EqualValues(t, 1<<20, got.MemorySwapLimitInBytes)
	require.Equal(t, []*runtimeapi.HugepageLimit{{PageSize: "1GB"}, {PageSize: "2MB"}}, got.HugepageLimits)
}

func TestPodLevelMemoryIsSpread(t *testing.T) {
	pod := testPod("a", "b")
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: quantities("memory", "512Mi")}
	pod.Spec.Containers[0].Resources.Requests = quantities("memory", "256Mi")
	require.EqualValues(t, 1000-375, oomScore(pod, &pod.Spec.Containers[0], 1<<30))
	require.EqualValues(t, 1000-125, oomScore(pod, &pod.Spec.Containers[1], 1<<30))
	pod.Spec.PriorityClassName = "system-node-critical"
	require.EqualValues(t, -997, oomScore(pod, &pod.Spec.Containers[1], 1<<30))
}

func TestSandboxResources(t *testing.T) {
	pod := testPod("a", "b")
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: quantities("cpu", "100m"), Limits: quantities("cpu", "1", "memory", "1Mi")}
	pod.Spec.Containers[1].Resources = v1.ResourceRequirements{Limits: quantities("cpu", "1", "memory", "2Mi")}
	pod.Spec.Overhead = quantities("memory", "5Mi")
	node := Node{CPUQuotaPeriod: 100 * time.Millisecond}
	got := sandboxResources(pod, node)
	require.EqualValues(t, 1126, got.CpuShares)
	require.EqualValues(t, 200000, got.CpuQuota)
	require.EqualValues(t, 3<<20, got.MemoryLimitInBytes)
	require.EqualValues(t, 5<<20, overheadResources(pod, node).MemoryLimitInBytes)
	require.Nil(t, overheadResources(testPod("a"), node))
	pod.Spec.Resources = &v1.ResourceRequirements{Limits: quantities("memory", "9Mi")}
	require.EqualValues(t, 9<<20, sandboxResources(pod, node).MemoryLimitInBytes)
}

// C29 and its kin.
func TestVerifyNonRoot(t *testing.T) {
	wanted := v1.SecurityContext{RunAsNonRoot: ptr(true)}
	with := func(uid int64) v1.SecurityContext {
		sc := wanted
		sc.RunAsUser = &uid
		return sc
	}
	for _, tc := range []struct {
		name  string
		sc    v1.SecurityContext
		image images.Image
		ok    bool
	}{
		{"not asked for", v1.SecurityContext{}, images.Image{}, true},
		{"user of the spec", with(5), images.Image{Username: "app"}, true},
		{"root in the spec", with(0), images.Image{UID: ptr(int64(5))}, false},
		{"bad user", with(-1), images.Image{}, false},
		{"user of the image", wanted, images.Image{UID: ptr(int64(5))}, true},
		{"root in the image", wanted, images.Image{UID: ptr(int64(0))}, false},
		{"bad user in the image", wanted, images.Image{UID: ptr(int64(-5))}, false},
		{"name in the image", wanted, images.Image{Username: "app"}, false},
		{"nothing in the image", wanted, images.Image{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.ok, verifyNonRoot(tc.sc, tc.image) == nil) })
	}
}

func TestContainerSecurity(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	c := &pod.Spec.Containers[0]
	got, err := h.m.containerSecurity(pod, c, images.Image{})
	require.NoError(t, err)
	require.Equal(t, int64(0), got.RunAsUser.Value, "root when nobody says otherwise")
	require.Equal(t, runtimeapi.SecurityProfile_Unconfined, got.Seccomp.ProfileType)
	require.False(t, got.NoNewPrivs)
	require.Contains(t, got.MaskedPaths, "/proc/kcore")
	require.Contains(t, got.ReadonlyPaths, "/proc/sys")
	require.Equal(t, runtimeapi.NamespaceMode_CONTAINER, got.NamespaceOptions.Pid)

	got, err = h.m.containerSecurity(pod, c, images.Image{Username: "app"})
	require.NoError(t, err)
	require.Nil(t, got.RunAsUser)
	require.Equal(t, "app", got.RunAsUsername)

	pod.Spec.HostPID, pod.Spec.HostIPC, pod.Spec.HostNetwork = true, true, true
	pod.Spec.SecurityContext = &v1.PodSecurityContext{
		RunAsUser: ptr(int64(1)), RunAsGroup: ptr(int64(2)), FSGroup: ptr(int64(3)), SupplementalGroups: []int64{4},
		SupplementalGroupsPolicy: ptr(v1.SupplementalGroupsPolicyStrict),
		SeccompProfile:           &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		SELinuxOptions:           &v1.SELinuxOptions{Level: "s0"},
	}
	c.SecurityContext = &v1.SecurityContext{
		RunAsUser: ptr(int64(9)), Privileged: ptr(true), ReadOnlyRootFilesystem: ptr(true), AllowPrivilegeEscalation: ptr(false),
		Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}, Drop: []v1.Capability{"ALL"}},
		ProcMount:    ptr(v1.UnmaskedProcMount),
	}
	got, err = h.m.containerSecurity(pod, c, images.Image{Username: "app"})
	require.NoError(t, err)
	require.EqualValues(t, 9, got.RunAsUser.Value)
	require.EqualValues(t, 2, got.RunAsGroup.Value)
	require.Empty(t, got.RunAsUsername)
	require.True(t, got.Privileged && got.ReadonlyRootfs && got.NoNewPrivs)
	require.Equal(t, []string{"NET_ADMIN"}, got.Capabilities.AddCapabilities)
	require.Equal(t, []string{"ALL"}, got.Capabilities.DropCapabilities)
	require.Empty(t, got.MaskedPaths)
	require.Equal(t, []int64{3, 4}, got.SupplementalGroups)
	require.Equal(t, runtimeapi.SupplementalGroupsPolicy_Strict, got.SupplementalGroupsPolicy)
	require.Equal(t, runtimeapi.SecurityProfile_RuntimeDefault, got.Seccomp.ProfileType)
	require.Equal(t, "s0", got.SelinuxOptions.Level)
	for _, mode := range []runtimeapi.NamespaceMode{got.NamespaceOptions.Pid, got.NamespaceOptions.Ipc, got.NamespaceOptions.Network} {
		require.Equal(t, runtimeapi.NamespaceMode_NODE, mode)
	}
	sandbox, err := sandboxSecurity(pod)
	require.NoError(t, err)
	require.True(t, sandbox.Privileged)
	require.Equal(t, runtimeapi.SecurityProfile_RuntimeDefault, sandbox.Seccomp.ProfileType)

	c.SecurityContext.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("p.json")}
	got, err = h.m.containerSecurity(pod, c, images.Image{})
	require.NoError(t, err)
	require.Equal(t, "/var/lib/kubelet/seccomp/p.json", got.Seccomp.LocalhostRef)
	for _, bad := range []*v1.SeccompProfile{{Type: "Other"}, {Type: v1.SeccompProfileTypeLocalhost}, {Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("../x")}} {
		c.SecurityContext.SeccompProfile = bad
		_, err = h.m.containerSecurity(pod, c, images.Image{})
		require.Error(t, err)
	}
	pod.Spec.SecurityContext.SupplementalGroupsPolicy = ptr(v1.SupplementalGroupsPolicy("Other"))
	_, err = sandboxSecurity(pod)
	require.Error(t, err)
}

func TestShareProcessNamespace(t *testing.T) {
	pod := testPod("a")
	pod.Spec.ShareProcessNamespace = ptr(true)
	require.Equal(t, runtimeapi.NamespaceMode_POD, namespaces(pod).Pid)
}

// A group without a user is the containers' alone.
func TestSandboxUser(t *testing.T) {
	pod := testPod("a")
	pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsGroup: ptr(int64(2))}
	got, err := sandboxSecurity(pod)
	require.NoError(t, err)
	require.Nil(t, got.RunAsUser)
	require.Nil(t, got.RunAsGroup)
	pod.Spec.SecurityContext.RunAsUser = ptr(int64(1))
	got, err = sandboxSecurity(pod)
	require.NoError(t, err)
	require.EqualValues(t, 1, got.RunAsUser.Value)
	require.EqualValues(t, 2, got.RunAsGroup.Value)
}

func TestSandboxConfig(t *testing.T) {
	h := newHarness(t, fake.Config{})
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
	got, err := h.m.sandboxConfig(pod, 3)
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
	got, err = h.m.sandboxConfig(pod, 3)
	require.NoError(t, err)
	require.Empty(t, got.Hostname)
	require.Equal(t, []string{"192.0.2.1"}, h.m.podIPs(pod, nil))
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

// C47 and the policies.
func TestDNS(t *testing.T) {
	h := newHarness(t, fake.Config{})
	h.cfg.DNS.ClusterServers, h.cfg.DNS.ClusterDomain = []string{"10.96.0.10"}, "cluster.local"
	h.restart()
	get := func(policy v1.DNSPolicy, change func(*v1.Pod)) *runtimeapi.DNSConfig {
		pod := testPod("a")
		pod.Spec.DNSPolicy = policy
		if change != nil {
			change(pod)
		}
		got, err := h.m.dnsConfig(pod)
		require.NoError(t, err)
		return got
	}
	got := get(v1.DNSClusterFirst, nil)
	require.Equal(t, []string{"10.96.0.10"}, got.Servers)
	require.Equal(t, []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.org"}, got.Searches)
	require.Equal(t, []string{"ndots:5"}, got.Options)
	require.Equal(t, []string{"10.0.0.1"}, get(v1.DNSClusterFirst, func(p *v1.Pod) { p.Spec.HostNetwork = true }).Servers)
	require.Equal(t, []string{"10.96.0.10"}, get(v1.DNSClusterFirstWithHostNet, func(p *v1.Pod) { p.Spec.HostNetwork = true }).Servers)
	require.Equal(t, []string{"10.0.0.1"}, get(v1.DNSDefault, nil).Servers)
	got = get(v1.DNSNone, func(p *v1.Pod) {
		p.Spec.DNSConfig = &v1.PodDNSConfig{
			Nameservers: []string{"1.1.1.1", "1.1.1.1"}, Searches: []string{"s"}, Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: ptr("2")}, {Name: "edns0"}},
		}
	})
	require.Equal(t, []string{"1.1.1.1"}, got.Servers)
	require.Equal(t, []string{"ndots:2", "edns0"}, got.Options)
	got = get(v1.DNSClusterFirst, func(p *v1.Pod) {
		p.Spec.DNSConfig = &v1.PodDNSConfig{Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: ptr("2")}}}
	})
	require.Equal(t, []string{"ndots:2"}, got.Options)
	require.Empty(t, h.takeEvents())

	got = get(v1.DNSNone, func(p *v1.Pod) {
		p.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"1", "2", "3", "4"}}
		for i := range 40 {
			p.Spec.DNSConfig.Searches = append(p.Spec.DNSConfig.Searches, fmt.Sprintf("d%d", i))
		}
	})
	require.Len(t, got.Servers, 3)
	require.Len(t, got.Searches, 32)
	require.Equal(t, []string{"DNSConfigForming "}, h.takeEvents())
	got = get(v1.DNSNone, func(p *v1.Pod) {
		p.Spec.DNSConfig = &v1.PodDNSConfig{Searches: []string{strings.Repeat("x", 256), "short"}}
		for range 20 {
			p.Spec.DNSConfig.Searches = append(p.Spec.DNSConfig.Searches, fmt.Sprint(len(p.Spec.DNSConfig.Searches))+strings.Repeat("y", 200))
		}
	})
	require.LessOrEqual(t, len(strings.Join(got.Searches, " ")), 2048)
	require.Equal(t, "short", got.Searches[0])
	require.Len(t, got.Searches, 11)

	h.cfg.DNS = DNS{NoHostResolver: true}
	h.restart()
	h.takeEvents()
	require.Equal(t, []string{"127.0.0.1", "::1"}, get(v1.DNSClusterFirst, nil).Servers)
	require.Equal(t, []string{"MissingClusterDNS "}, h.takeEvents())
}

func TestParseResolvConf(t *testing.T) {
	got := parseResolvConf([]byte("# comment\nnameserver 1.1.1.1 extra\nnameserver\nsearch a\nsearch b.  c .\n;x\noptions x\noptions ndots:2 edns0\n\nunknown y"))
	require.Equal(t, []string{"1.1.1.1"}, got.Servers)
	require.Equal(t, []string{"b", "c"}, got.Searches)
	require.Equal(t, []string{"ndots:2", "edns0"}, got.Options)
}

func FuzzParseResolvConf(f *testing.F) {
	f.Add([]byte("nameserver 1\nsearch a. .\noptions"))
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, s := range parseResolvConf(content).Searches {
			require.NotEmpty(t, s)
		}
	})
}

// The container's configuration as the runtime gets it.
func TestContainerConfig(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	c := &pod.Spec.Containers[0]
	c.Command, c.Args = []string{"run", "$(X)"}, []string{"$(Y)"}
	c.Env = []v1.EnvVar{{Name: "X", Value: "1"}}
	c.Stdin, c.TTY, c.WorkingDir = true, true, "/w"
	in := instance{pod: pod, container: c, image: images.Image{Ref: "sha256:1", UserSpecified: "busybox"}, restartCount: 2}
	got, err := h.m.containerConfig(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "sha256:1", got.Image.Image)
	require.Equal(t, "busybox", got.Image.UserSpecifiedImage)
	require.EqualValues(t, 2, got.Metadata.Attempt)
	require.Equal(t, []string{"run", "1"}, got.Command)
	require.Equal(t, []string{"$(Y)"}, got.Args)
	require.Equal(t, "a/2.log", got.LogPath)
	require.True(t, got.Stdin && got.Tty)
	require.Len(t, got.Mounts, 1, "without an address there is no /etc/hosts")
	info, err := os.Stat(got.Mounts[0].HostPath)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o666), info.Mode().Perm())
	require.DirExists(t, filepath.Join(h.dir, "pods", "shop_web_0d1e", "a"))
}

// 6.5: /etc/hosts of the pod.
func TestHosts(t *testing.T) {
	h := newHarness(t, fake.Config{})
	h.cfg.DNS.ClusterDomain, h.cfg.DNS.HostsFile = "cluster.local", filepath.Join(h.dir, "node-hosts")
	require.NoError(t, os.WriteFile(h.cfg.DNS.HostsFile, []byte("192.0.2.9\tnode\n"), 0o600))
	h.restart()
	pod := testPod("a")
	pod.Spec.Subdomain = "sub"
	pod.Spec.HostAliases = []v1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"x", "y"}}}
	in := instance{pod: pod, container: &pod.Spec.Containers[0], podIPs: []string{"10.0.0.2", "fd00::2"}}
	mounts, err := h.m.mounts(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, mounts, 2)
	require.Equal(t, "/etc/hosts", mounts[0].ContainerPath)
	require.False(t, mounts[0].Readonly)
	content, err := os.ReadFile(filepath.Join(h.dir, "kubelet", "0d1e", "etc-hosts"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(content), "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"))
	require.True(t, strings.HasSuffix(string(content),
		"10.0.0.2\tweb.sub.shop.svc.cluster.local\tweb\nfd00::2\tweb.sub.shop.svc.cluster.local\tweb\n\n# Entries added by HostAliases.\n192.0.2.7\tx\ty\n"))
	pod.Spec.HostNetwork, pod.Spec.HostAliases = true, nil
	file, err := h.m.writeHosts(pod, nil)
	require.NoError(t, err)
	content, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "# Kubernetes-managed hosts file (host network).\n192.0.2.9\tnode\n", string(content))
	h.cfg.Mounts = func(context.Context, *v1.Pod, *v1.Container) ([]*runtimeapi.Mount, error) {
		return []*runtimeapi.Mount{{ContainerPath: "/etc/hosts"}, {ContainerPath: "/dev/termination-log"}}, nil
	}
	h.restart()
	mounts, err = h.m.mounts(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, mounts, 2, "what the pod mounts there wins")
}

// What cannot be honoured is refused by name.
func TestUnsupported(t *testing.T) {
	require.Empty(t, Unsupported(testPod("a")))
	full := testPod("a")
	full.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}
	full.Spec.InitContainers = []v1.Container{{}}
	full.Spec.EphemeralContainers = []v1.EphemeralContainer{{}}
	full.Spec.HostUsers = ptr(false)
	full.Spec.ResourceClaims = []v1.PodResourceClaim{{}}
	full.Spec.OS = &v1.PodOS{Name: v1.Windows}
	full.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{}, WindowsOptions: &v1.WindowsSecurityContextOptions{}}
	full.Spec.Resources = &v1.ResourceRequirements{Limits: quantities("hugepages-2Mi", "2Mi")}
	c := &full.Spec.Containers[0]
	c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}, PreStop: &v1.LifecycleHandler{}, StopSignal: ptr(v1.SIGINT)}
	c.VolumeDevices = []v1.VolumeDevice{{}}
	c.EnvFrom = []v1.EnvFromSource{{}}
	for _, from := range []v1.EnvVarSource{
		{ConfigMapKeyRef: &v1.ConfigMapKeySelector{}}, {SecretKeyRef: &v1.SecretKeySelector{}}, {FileKeyRef: &v1.FileKeySelector{}},
		{ResourceFieldRef: &v1.ResourceFieldSelector{}}, {},
	} {
		c.Env = append(c.Env, v1.EnvVar{Name: "X", ValueFrom: &from})
	}
	c.Resources = v1.ResourceRequirements{Requests: quantities("cpu", "1", "ephemeral-storage", "1", "example.com/gpu", "1"), Claims: []v1.ResourceClaim{{}}}
	c.RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
	c.SecurityContext = &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{}, WindowsOptions: &v1.WindowsSecurityContextOptions{}}
	var got []string
	for _, err := range Unsupported(full) {
		got = append(got, strings.TrimSuffix(err.Error(), ": not supported"))
	}
	require.Equal(t, []string{
		"spec.initContainers", "spec.ephemeralContainers", "spec.resourceClaims", "spec.hostUsers: false", "spec.os",
		"spec.securityContext.appArmorProfile", "spec.securityContext.windowsOptions",
		"metadata.annotations[container.apparmor.security.beta.kubernetes.io/a]", "spec.resources.limits.hugepages-2Mi",
		"spec.containers[0].lifecycle.postStart", "spec.containers[0].lifecycle.preStop", "spec.containers[0].lifecycle.stopSignal",
		"spec.containers[0].volumeDevices", "spec.containers[0].envFrom",
		"spec.containers[0].env[0].valueFrom.configMapKeyRef", "spec.containers[0].env[1].valueFrom.secretKeyRef",
		"spec.containers[0].env[2].valueFrom.fileKeyRef", "spec.containers[0].env[3].valueFrom.resourceFieldRef", "spec.containers[0].env[4].valueFrom.(empty)",
		"spec.containers[0].restartPolicyRules[0].action: RestartAllContainers",
		"spec.containers[0].resources.claims", "spec.containers[0].resources.requests.example.com/gpu",
		"spec.containers[0].securityContext.appArmorProfile", "spec.containers[0].securityContext.windowsOptions",
	}, got)
}
