package node

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestParseLabels(t *testing.T) {
	for _, c := range []struct {
		value string
		want  map[string]string
		err   string
	}{
		{"", map[string]string{}, ""},
		{"a=b, example.com/c=,d", map[string]string{"a": "b", "example.com/c": "", "d": ""}, ""},
		{"a=b,a=b,", map[string]string{"a": "b"}, ""},
		{"node.kubernetes.io/x=1,sub.kubelet.kubernetes.io/y=2,kubernetes.io/os=linux", map[string]string{"node.kubernetes.io/x": "1", "sub.kubelet.kubernetes.io/y": "2", "kubernetes.io/os": "linux"}, ""},
		{"topology.kubernetes.io/zone=a", map[string]string{"topology.kubernetes.io/zone": "a"}, ""},
		{"mykubernetes.io/x=1", map[string]string{"mykubernetes.io/x": "1"}, ""},
		{"a=b,a=c", nil, `--node-labels: "a" is given twice, as "b" and as "c"`},
		{"=b", nil, `--node-labels: key ""`},
		{"a b=c", nil, `--node-labels: key "a b"`},
		{"a=b c", nil, `--node-labels: value "b c" of "a"`},
		{"a=" + strings.Repeat("b", 64), nil, "63"},
		{"node-role.kubernetes.io/control-plane=", nil, `--node-labels: "node-role.kubernetes.io/control-plane": in the domains`},
		{"node-restriction.kubernetes.io/x=", nil, `--node-labels: "node-restriction.kubernetes.io/x"`},
		{"x.k8s.io/x=", nil, `--node-labels: "x.k8s.io/x"`},
		{"kubernetes.io/x=", nil, `--node-labels: "kubernetes.io/x"`},
		{"kubernetes.io=x", map[string]string{"kubernetes.io": "x"}, ""},
	} {
		got, err := ParseLabels(c.value)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.value)
			continue
		}
		require.NoError(t, err, c.value)
		require.Equal(t, c.want, got)
	}
	_, err := ParseLabels("kubernetes.io/x=,a b=c,d=e f")
	for _, part := range []string{"kubernetes.io/x", "a b", "e f"} {
		require.ErrorContains(t, err, part, "all of them are named")
	}
}

func TestParseTaints(t *testing.T) {
	got, err := ParseTaints("example.com/a=b:NoSchedule, c:NoExecute,c=d:PreferNoSchedule,")
	require.NoError(t, err)
	require.Equal(t, []v1.Taint{
		{Key: "example.com/a", Value: "b", Effect: v1.TaintEffectNoSchedule},
		{Key: "c", Effect: v1.TaintEffectNoExecute},
		{Key: "c", Value: "d", Effect: v1.TaintEffectPreferNoSchedule},
	}, got)
	got, err = ParseTaints("")
	require.NoError(t, err)
	require.Empty(t, got)
	for value, want := range map[string]string{
		"a":                           `--register-with-taints: "a" is not key=value:effect`,
		"a=b:Never":                   `--register-with-taints: effect "Never" of "a"`,
		"a=b:":                        `effect "" of "a"`,
		"=b:NoSchedule":               `key ""`,
		"a=b=c:NoSchedule":            `value "b=c" of "a"`,
		"a:NoSchedule,a=b:NoSchedule": `"a" with effect "NoSchedule" is given twice`,
	} {
		_, err := ParseTaints(value)
		require.ErrorContains(t, err, want, value)
	}
	require.ErrorContains(t, CheckTaints("registerWithTaints", []v1.Taint{{Key: "a"}}), "registerWithTaints")
}

func TestParseNodeIPs(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for value, want := range map[string][]netip.Addr{
		"": nil, " ": nil, "192.0.2.1": {v4}, "2001:db8::1, 192.0.2.1": {v6, v4}, "::ffff:192.0.2.1": {v4},
		"0.0.0.0": {netip.IPv4Unspecified()}, "::": {netip.IPv6Unspecified()},
	} {
		got, err := ParseNodeIPs(value)
		require.NoError(t, err, value)
		require.Equal(t, want, got, value)
	}
	for value, want := range map[string]string{
		"x": `"x" is not an IP address`, "10.0.0.256": `"10.0.0.256" is not an IP address`, "192.0.2.1,": `"" is not an IP address`,
		"192.0.2.1,192.0.2.2": "one IPv4 and one IPv6", "1.2.3.4,2001:db8::1,5.6.7.8": "one IPv4 and one IPv6", "::,0.0.0.0": "must be the only address", "192.0.2.1,::": "must be the only address",
		"127.0.0.1": unusable, "fe80::1": unusable, "fe80::1%eth0": "", "169.254.1.1": unusable, "224.0.0.1": unusable, "ff02::1": unusable,
	} {
		_, err := ParseNodeIPs(value)
		require.ErrorContains(t, err, "--node-ip", value)
		require.ErrorContains(t, err, want, value)
	}
}

const unusable = "loopback, multicast or link-local"

func TestParseCloudProvider(t *testing.T) {
	external, err := ParseCloudProvider("external")
	require.NoError(t, err)
	require.True(t, external)
	external, err = ParseCloudProvider("")
	require.NoError(t, err)
	require.False(t, external)
	_, err = ParseCloudProvider("aws")
	require.ErrorContains(t, err, "--cloud-provider")
	require.ErrorContains(t, err, `must be "external"`)
}
