package node

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// plain returns a machine with two addresses, whose name does not resolve.
func plain() Network {
	return Network{
		Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") },
		Local: func() ([]netip.Addr, error) {
			return []netip.Addr{addr("127.0.0.1"), addr("10.0.0.1"), addr("2001:db8::1")}, nil
		},
		DefaultRoute: func(netip.Addr) (netip.Addr, error) { return addr("10.0.0.1"), nil },
	}
}

func resolves(to ...string) Network {
	n := plain()
	n.Lookup = func(_ context.Context, name string) (ips []netip.Addr, err error) {
		if name != "n" {
			return nil, errors.New("another name")
		}
		for _, text := range to {
			ips = append(ips, addr(text))
		}
		return ips, nil
	}
	return n
}

func TestAddresses(t *testing.T) {
	shown := []v1.NodeAddress{{Type: v1.NodeExternalIP, Address: "198.51.100.1"}}
	unspecified := func(ip string) []netip.Addr { return []netip.Addr{addr(ip)} }
	for _, c := range []struct {
		name  string
		a     Addressing
		shown []v1.NodeAddress
		want  []string
		err   string
	}{
		{"given", Addressing{IPs: []netip.Addr{addr("10.0.0.1")}}, shown, []string{"10.0.0.1", "h"}, ""},
		{"--node-ip of both families", Addressing{IPs: []netip.Addr{addr("2001:db8::1"), addr("10.0.0.1")}}, nil, []string{"2001:db8::1", "10.0.0.1", "h"}, ""},
		{"--node-ip of another machine", Addressing{IPs: []netip.Addr{addr("10.0.0.2")}}, nil, nil, "--node-ip: 10.0.0.2 is not an address of this machine"},
		{"the host's name", Addressing{Hostname: "192.0.2.9"}, nil, []string{"192.0.2.9", "192.0.2.9"}, ""},
		{"the node's name", Addressing{Network: resolves("10.9.9.9", "127.0.0.1", "2001:db8::1", "10.0.0.1")}, nil, []string{"10.0.0.1", "h"}, ""},
		{"the node's name, other family", Addressing{Network: resolves("2001:db8::1")}, nil, []string{"2001:db8::1", "h"}, ""},
		{"the node's name, IPv6 preferred", Addressing{IPs: unspecified("::"), Network: resolves("10.0.0.1", "2001:db8::1")}, nil, []string{"2001:db8::1", "h"}, ""},
		{"the node's name, mapped", Addressing{Network: resolves("::ffff:10.0.0.1")}, nil, []string{"10.0.0.1", "h"}, ""},
		{"the default route", Addressing{}, nil, []string{"10.0.0.1", "h"}, ""},
		{"a cloud that has set them", Addressing{External: true}, shown, nil, ""},
		{"a cloud that has not yet", Addressing{External: true}, nil, []string{"h"}, ""},
		{"a cloud that has not yet, --node-ip", Addressing{External: true, IPs: []netip.Addr{addr("10.0.0.1")}}, nil, []string{"10.0.0.1", "h"}, ""},
		{"a cloud that has set them, invalid --node-ip", Addressing{External: true, IPs: []netip.Addr{addr("10.0.0.2")}}, shown, nil, "--node-ip"},
		{"a cloud, only the family given", Addressing{External: true, IPs: unspecified("0.0.0.0")}, nil, []string{"10.0.0.1", "h"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.a.Name = "n"
			if c.a.Hostname == "" {
				c.a.Hostname = "h"
			}
			if c.a.Network.Lookup == nil {
				c.a.Network = plain()
			}
			got, err := c.a.Addresses(t.Context(), c.shown)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			var texts []string
			for i, a := range got {
				texts = append(texts, a.Address)
				want := v1.NodeInternalIP
				if i == len(got)-1 {
					want = v1.NodeHostName
				}
				require.Equal(t, want, a.Type)
			}
			require.Equal(t, c.want, texts)
		})
	}

	lost := plain()
	lost.DefaultRoute = func(netip.Addr) (netip.Addr, error) { return netip.Addr{}, errors.New("no route") }
	_, err := Addressing{Name: "n", Hostname: "h", Network: lost}.Addresses(t.Context(), nil)
	require.ErrorContains(t, err, "no route")
	require.ErrorContains(t, err, "no such host")
	blind := plain()
	blind.Local = func() ([]netip.Addr, error) { return nil, errors.New("no interfaces") }
	_, err = Addressing{Name: "n", Hostname: "h", IPs: []netip.Addr{addr("10.0.0.1")}, Network: blind}.Addresses(t.Context(), nil)
	require.ErrorContains(t, err, "no interfaces")
}

// This machine has addresses, with or without a default route.
func TestAddressesOfThisMachine(t *testing.T) {
	network := Network{}.withDefaults()
	local, err := network.Local()
	require.NoError(t, err)
	require.Contains(t, local, addr("127.0.0.1"))
	if route, err := network.DefaultRoute(netip.Addr{}); err == nil {
		require.Contains(t, local, route)
	}
	ips, err := network.Lookup(t.Context(), "localhost")
	require.NoError(t, err)
	require.NotEmpty(t, ips)
}

func TestProvided(t *testing.T) {
	both := []netip.Addr{addr("10.0.0.1"), addr("2001:db8::1")}
	require.Equal(t, "10.0.0.1,2001:db8::1", Addressing{External: true, IPs: both}.provided())
	require.Equal(t, "10.0.0.1", Addressing{External: true, IPs: both[:1]}.provided())
	require.Empty(t, Addressing{IPs: both}.provided())
	require.Empty(t, Addressing{External: true, IPs: []netip.Addr{addr("::")}}.provided())
	require.Empty(t, Addressing{External: true}.provided())
}
