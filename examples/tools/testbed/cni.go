package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
)

type network struct {
	Name   string // of the CNI network; appears in its iptables rules and cached results
	Bridge string
	Subnet netip.Prefix
}

func newNetwork(run, key string, subnet netip.Prefix) network {
	return network{Name: "podwright-" + run + "-" + key, Bridge: "pw" + run + key, Subnet: subnet}
}

// conflist renders the CNI configuration. Pods can reach each other and the host. Without
// masquerading and port mappings the plugins create no iptables rules.
func (n network) conflist(dataDir string, portmap bool) ([]byte, error) {
	plugins := []map[string]any{{
		"type":        "bridge",
		"bridge":      n.Bridge,
		"isGateway":   true,
		"ipMasq":      false,
		"hairpinMode": true,
		"ipam": map[string]any{
			"type":    "host-local",
			"dataDir": dataDir,
			"ranges":  [][]map[string]string{{{"subnet": n.Subnet.String()}}},
			"routes":  []map[string]string{{"dst": "0.0.0.0/0"}},
		},
	}}
	if portmap {
		plugins = append(plugins, map[string]any{
			"type": "portmap", "snat": true, "capabilities": map[string]bool{"portMappings": true},
		})
	}
	return json.MarshalIndent(map[string]any{
		"cniVersion": "0.4.0", "name": n.Name, "plugins": plugins,
	}, "", "  ")
}

// pickSubnets returns n /22 networks of 10.64.0.0/10 that do not overlap used. A bridge takes
// 1,023 pods, as many as such a network has addresses for. Testbeds use different values of
// start, so that testbeds on several hosts rarely pick the same networks.
func pickSubnets(n int, used []netip.Prefix, start uint16) ([]netip.Prefix, error) {
	const count = 64 * 64
	var picked []netip.Prefix
	for i := range count {
		at := (int(start) + i) % count
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(64 + at/64), byte(at % 64 * 4), 0}), 22)
		free := true
		for _, u := range used {
			free = free && !p.Overlaps(u)
		}
		if !free {
			continue
		}
		if picked = append(picked, p); len(picked) == n {
			return picked, nil
		}
	}
	return nil, errors.New("no free subnet in 10.64.0.0/10")
}

// usedSubnets returns the networks of the machine's addresses and routes, without the default
// route.
func usedSubnets() ([]netip.Prefix, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var used []netip.Prefix
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			used = append(used, p.Masked())
		}
	}
	routes, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return nil, err
	}
	return append(used, parseRoutes(string(routes))...), nil
}

// parseRoutes parses /proc/net/route. Destination and mask are the second and the eighth field, in
// hex and in the machine's byte order.
func parseRoutes(table string) []netip.Prefix {
	var out []netip.Prefix
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		dst, err := hexAddr(f[1])
		if err != nil {
			continue
		}
		mask, err := hexAddr(f[7])
		if err != nil {
			continue
		}
		m := mask.As4()
		ones, _ := net.IPMask(m[:]).Size()
		if ones > 0 {
			out = append(out, netip.PrefixFrom(dst, ones).Masked())
		}
	}
	return out
}

func hexAddr(s string) (netip.Addr, error) {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != 4 {
		return netip.Addr{}, fmt.Errorf("not an address: %q", s)
	}
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], binary.BigEndian.Uint32(raw))
	return netip.AddrFrom4(b), nil
}
