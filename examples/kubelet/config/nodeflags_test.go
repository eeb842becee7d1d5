package config

import (
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// What is wrong with a flag of the node ends the start with one line that names the flag.
func TestBadNodeFlags(t *testing.T) {
	for _, c := range []struct{ flag, why string }{
		{"--node-ip=10.0.0.256", `"10.0.0.256" is not an IP address`},
		{"--node-ip=10.0.0.1,", `"" is not an IP address`},
		{"--node-ip=10.0.0.1,10.0.0.2", "one IPv4 and one IPv6"},
		{"--node-ip=10.0.0.1,fd00::1,fd00::2", "one IPv4 and one IPv6"},
		{"--node-ip=0.0.0.0,::", "stand alone"},
		{"--node-ip=127.0.0.1", "loopback, multicast or link-local"},
		{"--node-ip=fe80::1", "loopback, multicast or link-local"},
		{"--node-ip=169.254.1.1", "loopback, multicast or link-local"},
		{"--node-ip=ff02::1", "loopback, multicast or link-local"},
		{"--hostname-override=a_b", "node name"},
		{"--hostname-override= ", "node name"},
		{"--hostname-override=" + strings.Repeat("a.", 127), "node name"},
		{"--node-labels=a=b,a=c", "given twice"},
		{"--node-labels=kubernetes.io/x=y", "kubernetes.io"},
		{"--node-labels=node-role.kubernetes.io/worker=", "node-role.kubernetes.io/worker"},
		{"--node-labels=x.k8s.io/y=z", "x.k8s.io/y"},
		{"--node-labels=a=" + strings.Repeat("b", 64), "63"},
		{"--register-with-taints=a=b", "is not key=value:effect"},
		{"--register-with-taints=a=b:Sometimes", "none of NoSchedule"},
		{"--register-with-taints=a:NoExecute,a=b:NoExecute", "given twice"},
		{"--register-node=perhaps", "perhaps"},
		{"--cloud-provider=aws", `only "external"`},
	} {
		_, err := FromArgs([]string{"--config-dir=", c.flag}, io.Discard)
		name, _, _ := strings.Cut(strings.TrimLeft(c.flag, "-"), "=")
		require.ErrorContains(t, err, "-"+name, c.flag)
		require.ErrorContains(t, err, c.why, c.flag)
		require.NotContains(t, err.Error(), "\n", c.flag)
	}
	_, _, err := withFile(t, "registerWithTaints: [{key: a, effect: Sometimes}]")
	require.ErrorContains(t, err, "registerWithTaints: effect")
}

// Flags of the node as they are to be.
func TestNodeFlags(t *testing.T) {
	c, _, err := withFile(t, "registerWithTaints: [{key: file, effect: NoSchedule}]\nproviderID: file\nregisterNode: true",
		"--hostname-override= Node-1 ", "--node-ip=10.0.0.1,fd00::1", "--node-labels=a=b,node.kubernetes.io/pool=p,c",
		"--register-with-taints=a=b:NoSchedule,c:NoExecute", "--provider-id=cloud://1", "--cloud-provider=external", "--register-node=false")
	require.NoError(t, err)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}, c.Flags.NodeIP)
	require.Equal(t, map[string]string{"a": "b", "node.kubernetes.io/pool": "p", "c": ""}, c.Flags.NodeLabels)
	require.Equal(t, []v1.Taint{{Key: "a", Value: "b", Effect: v1.TaintEffectNoSchedule}, {Key: "c", Effect: v1.TaintEffectNoExecute}}, c.Kubelet.RegisterWithTaints)
	require.Equal(t, "cloud://1", c.Kubelet.ProviderID)
	require.True(t, c.Flags.ExternalCloud)
	require.False(t, *c.Kubelet.RegisterNode)
	c, err = FromArgs([]string{"--hostname-override= Node-1 "}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "node-1", c.Flags.NodeName)
	for _, family := range []string{"0.0.0.0", "::"} {
		c, err = FromArgs([]string{"--hostname-override=n", "--node-ip=" + family}, io.Discard)
		require.NoError(t, err)
		require.Equal(t, []netip.Addr{netip.MustParseAddr(family)}, c.Flags.NodeIP)
	}
}
