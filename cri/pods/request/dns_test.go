package request

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestParseResolvConf(t *testing.T) {
	got := parseResolvConf([]byte("# comment\nnameserver 1.1.1.1 extra\nnameserver\nsearch a\nsearch b.  c .\n;x\noptions x ndots:5\r\noptions ndots:2 edns0\n\nunknown y"))
	require.Equal(t, []string{"1.1.1.1"}, got.Servers)
	require.Equal(t, []string{"b", "c"}, got.Searches)
	require.Equal(t, []string{"x", "ndots:2", "edns0"}, got.Options)
}

func FuzzParseResolvConf(f *testing.F) {
	f.Add([]byte("nameserver 1\nsearch a. .\noptions"))
	f.Add([]byte("#nameserver 1\n ;search a\nnameserver 2 3\nnameserver 2\noptions ndots:1 x ndots:2\nsearch b\nsearch\r\nsearch c d..\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		got := parseResolvConf(content)
		// Parsing the written configuration returns the same configuration, with name servers in
		// order.
		var text strings.Builder
		for _, s := range got.Servers {
			fmt.Fprintln(&text, "nameserver", s)
		}
		fmt.Fprintln(&text, "search", strings.Join(got.Searches, ". ")+".")
		fmt.Fprintln(&text, "options", strings.Join(got.Options, " "))
		require.True(t, proto.Equal(got, parseResolvConf([]byte(text.String()))), text.String())
		servers, search := []string(nil), ""
		for line := range strings.SplitSeq(string(content), "\n") {
			words := strings.Fields(line)
			switch {
			case len(words) > 1 && words[0] == "nameserver":
				servers = append(servers, words[1])
			case len(words) > 0 && words[0] == "search":
				search = " " + strings.Join(words[1:], " ") + " "
			}
		}
		require.Equal(t, servers, got.Servers)
		for _, s := range got.Searches {
			require.NotEmpty(t, s)
			require.True(t, strings.Contains(search, " "+s+" ") || strings.Contains(search, " "+s+". "), s)
		}
		names := map[string]bool{}
		for _, option := range got.Options {
			name, _, _ := strings.Cut(option, ":")
			require.False(t, names[name], "an option counts once")
			names[name] = true
		}
	})
}

// Overlong domains among the first 32 are skipped, and later ones do not replace them.
func TestSearchLimits(t *testing.T) {
	config := &runtimeapi.DNSConfig{Searches: []string{strings.Repeat("x", 256), "a"}}
	for i := range 40 {
		config.Searches = append(config.Searches, fmt.Sprint("d", i))
	}
	longest := &runtimeapi.DNSConfig{Searches: []string{strings.Repeat("x", 255)}}
	require.Empty(t, limitDNS(longest))
	require.Len(t, longest.Searches, 1)
	require.Len(t, limitDNS(config), 1)
	require.Len(t, config.Searches, 31)
	require.Equal(t, "d29", config.Searches[30])
	exact := func(last int) *runtimeapi.DNSConfig {
		out := &runtimeapi.DNSConfig{}
		for i := range 8 {
			out.Searches = append(out.Searches, fmt.Sprint(i)+strings.Repeat("y", 253))
		}
		out.Searches = append(out.Searches, strings.Repeat("z", last))
		return out
	}
	require.Empty(t, limitDNS(exact(8)), "8*254, 8 and 8 blanks are 2048")
	servers := &runtimeapi.DNSConfig{Servers: []string{"1", "2", "3"}}
	require.Empty(t, limitDNS(servers))
	servers.Servers = append(servers.Servers, "4")
	require.Len(t, limitDNS(servers), 1)
	require.Equal(t, []string{"1", "2", "3"}, servers.Servers)
	long := exact(9)
	require.Len(t, limitDNS(long), 1)
	require.Len(t, long.Searches, 8)
}

// An unreadable resolver fails only the pods that need it.
func TestHostResolverMissing(t *testing.T) {
	h := newHarness(t)
	h.cfg.DNS.HostResolver = filepath.Join(h.dir, "none")
	pod := testPod("a")
	_, err := h.builder().Sandbox(pod, 0)
	require.ErrorContains(t, err, "host resolver")
	pod.Spec.DNSPolicy = v1.DNSNone
	_, err = h.builder().Sandbox(pod, 0)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(h.cfg.DNS.HostResolver, []byte(strings.Repeat("#", maxNodeFile+1)), 0o600))
	pod.Spec.DNSPolicy = v1.DNSDefault
	_, err = h.builder().Sandbox(pod, 0)
	require.ErrorContains(t, err, "larger than")
}

// C47: events for resolver settings that a pod does not get, and the resolver of a node without
// one. The golden records cover the policies.
func TestDNS(t *testing.T) {
	h := newHarness(t)
	var events []string
	h.cfg.Event = func(ref v1.ObjectReference, _, reason, _ string) { events = append(events, reason+" "+ref.Kind) }
	get := func(policy v1.DNSPolicy, change func(*v1.Pod)) *runtimeapi.DNSConfig {
		pod := testPod("a")
		pod.Spec.DNSPolicy = policy
		if change != nil {
			change(pod)
		}
		events = nil
		got, err := h.builder().dnsConfig(pod, h.builder().cfg.Event)
		require.NoError(t, err)
		return got
	}
	got := get(v1.DNSNone, func(p *v1.Pod) {
		p.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"1", "2", "2", "3"}, Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}, {Name: "edns0"}}}
	})
	require.Equal(t, []string{"1", "2", "3"}, got.Servers)
	require.Equal(t, []string{"ndots:2", "edns0"}, got.Options)
	require.Empty(t, events)
	got = get(v1.DNSNone, func(p *v1.Pod) { p.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"1", "2", "3", "4"}} })
	require.Len(t, got.Servers, 3)
	require.Equal(t, []string{"DNSConfigForming Pod"}, events)

	h.cfg.DNS = DNS{NoHostResolver: true, HostResolver: filepath.Join(h.dir, "none")} // not read
	require.Equal(t, []string{"127.0.0.1"}, get(v1.DNSClusterFirst, nil).Servers)
	require.Equal(t, []string{"MissingClusterDNS Node", "MissingClusterDNS Pod"}, events)
	h.cfg.Node.Name = ""
	get(v1.DNSClusterFirst, nil)
	require.Equal(t, []string{"MissingClusterDNS Pod"}, events, "a node without a name is none to tell of")
	h.cfg.Node.IPs = []string{"2001:db8::1", "192.0.2.1"}
	h.cfg.DNS = DNS{NoHostResolver: true, ClusterServers: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"}
	got = get(v1.DNSDefault, nil)
	require.Equal(t, []string{"::1", "127.0.0.1"}, got.Servers)
	require.Equal(t, []string{"."}, got.Searches)
	require.Equal(t, []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"}, get(v1.DNSClusterFirst, nil).Searches)
	h.cfg.Node.IPs, h.cfg.NodeIPs = nil, nil
	require.Equal(t, []string{"127.0.0.1"}, get(v1.DNSDefault, nil).Servers, "of a node whose addresses are not known")
}

// CheckHostResolver lists every part of the node's resolver that pods do not get.
func TestCheckHostResolver(t *testing.T) {
	domains := func(n int) string { return "search" + strings.Repeat(" a.example", n) + "\n" }
	long := strings.Repeat("x", 256)
	for name, c := range map[string]struct {
		content, domain string
		want            []string
	}{
		"empty":                {},
		"all that is allowed":  {content: strings.Repeat("nameserver 10.0.0.1\n", 3) + domains(32)},
		"servers":              {content: strings.Repeat("nameserver 10.0.0.1\n", 4), want: []string{"4 name servers: pods get the first 3"}},
		"domains":              {content: domains(33), want: []string{"33 search domains: pods get the first 32"}},
		"a cluster's":          {content: domains(30), domain: "cluster.local", want: []string{"30 search domains: pods get the first 29"}},
		"with a cluster's":     {content: domains(29), domain: "cluster.local"},
		"long":                 {content: "search " + long, want: []string{"a search domain of 256 characters: pods get none longer than 255"}},
		"longest":              {content: "search " + long[1:]},
		"together at most":     {content: "search" + strings.Repeat(" "+long[:254], 8) + " " + long[:8]},
		"all together":         {content: "search" + strings.Repeat(" "+long[:250], 9), want: []string{"search domains of 2258 characters in total: pods get the first 2048"}},
		"several":              {content: strings.Repeat("nameserver 10.0.0.1\n", 5) + domains(40), want: []string{"5 name servers", "40 search domains"}},
		"the last line counts": {content: domains(40) + domains(1)},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "resolv.conf")
			require.NoError(t, os.WriteFile(file, []byte(c.content), 0o600))
			err := DNS{HostResolver: file, ClusterDomain: c.domain}.CheckHostResolver()
			if len(c.want) == 0 {
				require.NoError(t, err)
				return
			}
			for _, want := range c.want {
				require.ErrorContains(t, err, file+": "+want)
			}
			require.Len(t, strings.Split(err.Error(), "\n"), len(c.want))
		})
	}
	none := filepath.Join(t.TempDir(), "none")
	require.ErrorIs(t, DNS{HostResolver: none}.CheckHostResolver(), fs.ErrNotExist)
	require.NoError(t, DNS{HostResolver: none, NoHostResolver: true}.CheckHostResolver())
}
