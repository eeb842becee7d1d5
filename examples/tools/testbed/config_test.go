package main

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func testInstance(key string) instance {
	return instance{
		Key: key, Dir: "/tmp/pwtb-0a1b2c/" + key, Runc: "/usr/sbin/runc", CNIBin: "/usr/lib/cni",
		SandboxImage: "127.0.0.1:5000/podwright/pause:v1", Snapshotter: "overlayfs", RestrictOOM: true,
	}
}

// assignment matches a TOML assignment with a quoted value. A path with a quote must match it,
// too.
var assignment = regexp.MustCompile(`^\s*[A-Za-z_]+ = ("([^"\\]|\\.)*"|\["([^"\\]|\\.)*"\]|\[|true|false|\d)$`)

func TestConfig(t *testing.T) {
	for key, table := range map[string]string{
		"v1": `[plugins."io.containerd.grpc.v1.cri"]`,
		"v2": `[plugins.'io.containerd.cri.v1.runtime']`,
	} {
		i := testInstance(key)
		text, err := i.config()
		require.NoError(t, err)
		for _, want := range []string{
			"root = \"" + i.Root() + "\"\n", "state = \"" + i.State() + "\"\n", "address = \"" + i.Socket() + "\"\n",
			table + "\n", "restrict_oom_score_adj = true\n", "netns_mounts_under_state_dir = true\n",
			"= \"127.0.0.1:5000/podwright/pause:v1\"\n", "conf_dir = \"" + i.CNIConfDir() + "\"\n",
			"BinaryName = \"/usr/sbin/runc\"\n", "Root = \"" + i.State() + "/runc\"\n", "snapshotter = \"overlayfs\"\n",
		} {
			require.Contains(t, text, want, key)
		}
		i.Dir = `/tmp/a "b" \c`
		quoted, err := i.config()
		require.NoError(t, err)
		for line := range strings.Lines(quoted) {
			if line = strings.TrimRight(line, "\n"); strings.Contains(line, " = ") {
				require.Regexp(t, assignment, line)
			}
		}
	}
	_, err := testInstance("v3").config()
	require.ErrorContains(t, err, "v3")
}

// A runtime pulls the images of Docker Hub and of registry.k8s.io from the local registry.
func TestMirrors(t *testing.T) {
	c := &containerd{instance: testInstance("v2")}
	c.Dir, c.Registry = t.TempDir(), "127.0.0.1:5000"
	c.Network = newNetwork("0a1b2c", "v2", netip.MustParsePrefix("10.64.3.0/24"))
	require.NoError(t, c.prepare())
	for _, host := range []string{"docker.io", "registry.k8s.io"} {
		text, err := os.ReadFile(filepath.Join(c.HostsDir(), host, "hosts.toml"))
		require.NoError(t, err)
		require.Contains(t, string(text), `[host."http://127.0.0.1:5000"]`)
	}
}

func TestTOMLQuote(t *testing.T) {
	require.Equal(t, `"a\"b\\c\u000A\u007Fé"`, tomlQuote("a\"b\\c\n\x7fé"))
}

func TestConflist(t *testing.T) {
	n := newNetwork("0a1b2c", "v1", netip.MustParsePrefix("10.64.3.0/24"))
	require.LessOrEqual(t, len(n.Bridge), 15) // IFNAMSIZ
	for _, portmap := range []bool{false, true} {
		text, err := n.conflist("/tmp/x/ipam", portmap)
		require.NoError(t, err)
		var list struct {
			Name    string
			Plugins []struct {
				Type, Bridge string
				IPMasq       bool
				IPAM         struct{ DataDir string }
			}
		}
		require.NoError(t, json.Unmarshal(text, &list))
		require.Equal(t, n.Name, list.Name)
		require.Equal(t, n.Bridge, list.Plugins[0].Bridge)
		require.Equal(t, "/tmp/x/ipam", list.Plugins[0].IPAM.DataDir)
		require.False(t, list.Plugins[0].IPMasq)
		require.Equal(t, portmap, len(list.Plugins) == 2 && list.Plugins[1].Type == "portmap")
	}
}

func TestPickSubnets(t *testing.T) {
	prefix := netip.MustParsePrefix
	for name, tc := range map[string]struct {
		used  []netip.Prefix
		start uint16
		want  []string
	}{
		"free":               {want: []string{"10.64.0.0/22", "10.64.4.0/22"}},
		"start":              {start: 131, want: []string{"10.66.12.0/22", "10.66.16.0/22"}},
		"wraps around":       {start: 64*64 - 1, want: []string{"10.127.252.0/22", "10.64.0.0/22"}},
		"beyond the end":     {start: 65535, want: []string{"10.127.252.0/22", "10.64.0.0/22"}},
		"one used":           {used: []netip.Prefix{prefix("10.64.0.128/25")}, want: []string{"10.64.4.0/22", "10.64.8.0/22"}},
		"wider network used": {used: []netip.Prefix{prefix("10.64.0.0/16")}, want: []string{"10.65.0.0/22", "10.65.4.0/22"}},
		"all used":           {used: []netip.Prefix{prefix("10.0.0.0/8")}},
	} {
		got, err := pickSubnets(2, tc.used, tc.start)
		require.Equal(t, tc.want == nil, err != nil, name)
		for i, want := range tc.want {
			require.Equal(t, prefix(want), got[i], name)
		}
	}
}

func TestParseRoutes(t *testing.T) {
	// The table has little-endian values, so other machines skip the test.
	if a, err := hexAddr("0100000A"); err != nil || a != netip.MustParseAddr("10.0.0.1") {
		t.Skip("not a little-endian machine")
	}
	const table = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	0	00000000	0	0	0
eth0	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
wg0	0000400A	00000000	0001	0	0	0	0000FFFF	0	0	0
bad	zz	00000000	0001	0	0	0	0000FFFF	0	0	0
short	0000400A
`
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.64.0.0/16")}, parseRoutes(table))
}
