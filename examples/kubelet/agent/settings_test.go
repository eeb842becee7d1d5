package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/examples/kubelet/config"
)

// The configuration at /configz has kind and version, headers as configured, and no password.
func TestShownConfiguration(t *testing.T) {
	k := config.Default().Kubelet
	k.TypeMeta = metav1.TypeMeta{}
	k.StaticPodURL, k.StaticPodURLHeader = "https://u:secret@h/", map[string][]string{"custom-header": {"A: b"}}
	text, err := json.Marshal(shown(&k))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), `{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1",`), string(text))
	require.NotContains(t, string(text), "secret")
	require.Contains(t, string(text), `"staticPodURLHeader":{"custom-header":["A: b"]}`)
}

func TestDNS(t *testing.T) {
	k := config.Default().Kubelet
	require.Equal(t, pods.DNS{HostResolver: "/etc/resolv.conf"}, dns(&k))
	*k.ResolverConfig, k.ClusterDNS, k.ClusterDomain = "", []string{"10.0.0.10"}, "cluster.local"
	require.Equal(t, pods.DNS{ClusterServers: []string{"10.0.0.10"}, ClusterDomain: "cluster.local", NoHostResolver: true}, dns(&k))
}

func TestPullLimits(t *testing.T) {
	require.Equal(t, -1, unlimited(0))
	require.Equal(t, 3, unlimited(3))
	yes, no := new(true), new(false)
	for _, tc := range []struct {
		serialize *bool
		limit     *int32
		want      int
	}{
		{nil, nil, 1}, {nil, new(int32(0)), 1}, {nil, new(int32(1)), 1}, {nil, new(int32(4)), 4},
		{yes, nil, 1}, {yes, new(int32(1)), 1},
		{no, nil, -1}, {no, new(int32(0)), -1}, {no, new(int32(1)), 1}, {no, new(int32(4)), 4},
	} {
		k := config.Default().Kubelet
		k.SerializeImagePulls, k.MaxParallelImagePulls = tc.serialize, tc.limit
		config.SetDefaults(&k)
		require.Equal(t, tc.want, parallelPulls(&k), "%+v", tc)
	}
}

func TestGarbagePolicies(t *testing.T) {
	k, f := config.Default().Kubelet, config.Default().Flags
	require.Equal(t, gc.Policy{HighPercent: 85, LowPercent: 80, MinAge: 2 * time.Minute}, imageGC(&k))
	k.ContainerRuntimeEndpoint = config.Embedded
	require.Equal(t, gc.Policy{HighPercent: 100}, imageGC(&k))

	require.Equal(t, garbage.Policy{MaxPerContainer: 1, MaxTotal: -1}, deadContainers(&f))
	f.MaxDeadContainers = 0
	require.True(t, deadContainers(&f).KeepNone)
	f.MaxDeadContainers, f.MaxDeadPerContainer, f.MinContainerTTL = 7, 0, time.Minute
	require.Equal(t, garbage.Policy{MinAge: time.Minute, KeepNone: true, MaxTotal: 7}, deadContainers(&f))
}

func TestLogSize(t *testing.T) {
	k := config.Default().Kubelet
	for text, want := range map[string]int64{"10Mi": 10 << 20, "1500k": 1_500_000, "-1": -1} {
		k.ContainerLogMaxSize = text
		size, err := logSize(&k)
		require.NoError(t, err)
		require.Equal(t, want, size)
	}
	k.ContainerLogMaxSize = "large"
	_, err := logSize(&k)
	require.ErrorContains(t, err, "containerLogMaxSize")
}

func TestSwapController(t *testing.T) {
	for file, want := range map[string]bool{
		"memory/memory.limit_in_bytes": false, "memory/memory.memsw.limit_in_bytes": true, "init.scope/memory.max": false, "init.scope/memory.swap.max": true,
	} {
		root := t.TempDir()
		put(t, root, file, "")
		require.Equal(t, want, swapController(root), file)
	}
	require.False(t, swapController(filepath.Join(t.TempDir(), "none")))
}

func TestDescribeNode(t *testing.T) {
	cfg := config.Default()
	cfg.Flags.NodeName, cfg.Flags.RootDir = "n", "/r"
	node := describeNode(cfg)
	require.False(t, node.NoCPUQuota || node.SeccompDefault || node.SingleProcessOOMKill || node.LimitedSwap)
	require.Equal(t, 100*time.Millisecond, node.CPUQuotaPeriod)

	k := &cfg.Kubelet
	*k.CPUCFSQuota, *k.SeccompDefault, k.SingleProcessOOMKill = false, true, new(true)
	k.CPUCFSQuotaPeriod.Duration, k.MemorySwap.SwapBehavior = time.Millisecond, config.LimitedSwap
	node = describeNode(cfg)
	require.Equal(t, "n", node.Name)
	require.Equal(t, "/r/seccomp", node.SeccompRoot)
	require.True(t, node.NoCPUQuota && node.SeccompDefault && node.SingleProcessOOMKill && node.LimitedSwap)
	require.Equal(t, time.Millisecond, node.CPUQuotaPeriod)
	require.Positive(t, node.MemoryCapacity)
	require.Empty(t, node.Allocatable, "allocatable resources are set later")
}

func TestMeminfo(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "meminfo", "MemTotal:        8000 kB\nSwapCached: 5 kB\nSwapTotal:  100 kB\nBad: x kB\n")
	for name, want := range map[string]int64{"MemTotal:": 8000 * 1024, "SwapTotal:": 100 * 1024, "Bad:": 0, "None:": 0} {
		require.Equal(t, want, meminfo(filepath.Join(dir, "meminfo"), name), name)
	}
	require.Zero(t, meminfo(filepath.Join(dir, "none"), "MemTotal:"))
}

func TestDockerConfigs(t *testing.T) {
	require.Equal(t, []string{
		"/r/config.json", "/h/.docker/config.json", "/.docker/config.json", "/r/.dockercfg", "/h/.dockercfg", "/.dockercfg",
	}, dockerConfigs("/r", "/h"))
	require.Len(t, dockerConfigs("/r", ""), 4)
}

func TestHugePageSizes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"hugepages-2048kB", "hugepages-1048576kB", "hugepages-64kB", "other"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	require.Equal(t, []string{"1GB", "2MB", "64KB"}, hugePageSizes(dir))
	require.Empty(t, hugePageSizes(filepath.Join(dir, "none")))
}

// The node's addresses are read again after a while, and at each call while there are none.
func TestAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now []string
		looks := 0
		a := addresses{list: func() []string { looks++; return now }}
		require.Empty(t, a.get())
		now = []string{"192.0.2.1"}
		require.Equal(t, now, a.get())
		a.get()[0] = "mine"
		require.Equal(t, now, a.get())
		require.Equal(t, 2, looks)
		now = []string{"192.0.2.2"}
		time.Sleep(fresh)
		require.Equal(t, now, a.get())
	})
}

// Pods on the host network and status.hostIPs have the addresses of the Node.
func TestPodHostIPs(t *testing.T) {
	address := func(kind v1.NodeAddressType, text string) v1.NodeAddress {
		return v1.NodeAddress{Type: kind, Address: text}
	}
	for _, tc := range []struct {
		name  string
		node  []v1.NodeAddress
		given []netip.Addr
		want  []string
	}{
		{name: "one family, although the machine may have two", node: []v1.NodeAddress{address(v1.NodeInternalIP, "192.0.2.1"), address(v1.NodeHostName, "n")}, want: []string{"192.0.2.1"}},
		{name: "both families, in the Node's order", node: []v1.NodeAddress{address(v1.NodeInternalIP, "fd00::1"), address(v1.NodeInternalIP, "fd00::2"), address(v1.NodeInternalIP, "192.0.2.1")},
			want: []string{"fd00::1", "192.0.2.1"}},
		{name: "internal before external", node: []v1.NodeAddress{address(v1.NodeExternalIP, "198.51.100.1"), address(v1.NodeExternalIP, "2001:db8::1"), address(v1.NodeInternalIP, "192.0.2.1")},
			want: []string{"192.0.2.1", "2001:db8::1"}},
		{name: "malformed", node: []v1.NodeAddress{address(v1.NodeInternalIP, "x"), address(v1.NodeInternalIP, "192.0.2.1")}, want: []string{"192.0.2.1"}},
		{name: "the Node counts more than --node-ip", node: []v1.NodeAddress{address(v1.NodeInternalIP, "192.0.2.1")}, given: []netip.Addr{netip.MustParseAddr("192.0.2.9")}, want: []string{"192.0.2.1"}},
		{name: "the Node has no addresses yet", given: []netip.Addr{netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("fd00::9")}, want: []string{"192.0.2.9", "fd00::9"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, podHostIPs(&v1.Node{Status: v1.NodeStatus{Addresses: tc.node}}, tc.given, false))
		})
	}
	own := nodeIPs()
	require.Equal(t, own, podHostIPs(nil, []netip.Addr{netip.IPv4Unspecified()}, true))
	require.Equal(t, own[:min(len(own), 1)], podHostIPs(nil, nil, false))
}

// Resolver settings beyond the limits for pods are reported once, at the start of the loop.
func TestResolverOfTheNode(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "resolv.conf", strings.Repeat("nameserver 10.0.0.1\n", 4))
	file, none := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "none")
	check := func(path string) []string {
		var h recordedEvents
		cfg := Config{Config: config.Default()}
		cfg.Kubelet.ResolverConfig = &path
		checkResolver(&cfg, recorder{node: nodeReference("n1"), log: h.event})
		return h.events
	}
	require.Equal(t, []string{"v1 Node n1 n1 Warning CheckLimitsForResolvConf: " + file + ": 4 name servers: pods get the first 3"}, check(file))
	require.Len(t, check(none), 1)
	require.Contains(t, check(none)[0], "no such file")
	require.Empty(t, check(""))

	n := newPodsNode(t, fake.Config{}, "p")
	n.cfg.Kubelet.ResolverConfig = &file
	n.during(t, func(a *Agent) {
		soon(t, func() bool { return runs(a) })
		require.Equal(t, 1, n.log.count("CheckLimitsForResolvConf"))
	})
}

// Pods get the subordinate IDs of the node, if they are unambiguous.
func TestSubIDs(t *testing.T) {
	const some = "0: kubelet 65536 7208960\n"
	broken := errors.New("exit status 1")
	for name, tc := range map[string]struct {
		users, groups string
		usersErr      error
		groupsErr     error
		first, length uint32
		err           string
	}{
		"set aside":           {users: some, groups: some, first: 65536, length: 7208960},
		"no such program":     {usersErr: &exec.Error{Name: "getsubids", Err: exec.ErrNotFound}},
		"none":                {usersErr: broken, err: "subordinate IDs of user kubelet: exit status 1"},
		"no range for groups": {users: some, groupsErr: broken, err: "exit status 1"},
		"groups differ":       {users: some, groups: "0: kubelet 131072 65536\n", err: "differ"},
		"more than one":       {users: some + some, groups: some + some, err: "want one range"},
		"no range at all":     {users: "\n", groups: "\n", err: "want one range"},
		"not a range":         {users: "0: kubelet a b\n", groups: "0: kubelet a b\n", err: "getsubids"},
	} {
		first, length, err := subIDs(t.Context(), func(_ context.Context, args ...string) (string, error) {
			if len(args) == 2 {
				return tc.groups, tc.groupsErr
			}
			return tc.users, tc.usersErr
		})
		require.Equal(t, []uint32{tc.first, tc.length}, []uint32{first, length}, name)
		if tc.err == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, tc.err, name)
		}
	}
}
