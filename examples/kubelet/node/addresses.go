package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/podwright/podwright/internal/fields"
)

// providedNodeIP is the annotation that tells an external cloud provider which addresses
// the node was given.
const providedNodeIP = "alpha.kubernetes.io/provided-node-ip"

// Network is what of the network decides on a node's addresses. The zero value asks this
// machine.
type Network struct {
	// Lookup resolves a name. nil means the system's resolver.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Local are the addresses of the machine's interfaces. nil means those.
	Local func() ([]netip.Addr, error)
	// DefaultRoute is the address by which the machine reaches others, of the family of
	// one that is unspecified or of any if it is the zero address. nil means by the tables
	// of routes.
	DefaultRoute func(family netip.Addr) (netip.Addr, error)
}

func (n Network) withDefaults() Network {
	fields.Default(&n.Lookup, func(ctx context.Context, name string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	})
	fields.Default(&n.Local, localAddresses)
	fields.Default(&n.DefaultRoute, defaultRoute)
	return n
}

func localAddresses() (local []netip.Addr, err error) {
	addrs, err := net.InterfaceAddrs()
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			local = append(local, prefix.Addr().Unmap())
		}
	}
	return local, err
}

func defaultRoute(family netip.Addr) (netip.Addr, error) {
	var prefer net.IP
	if family.IsValid() {
		prefer = family.AsSlice()
	}
	ip, err := utilnet.ResolveBindAddress(prefer)
	if err != nil {
		return netip.Addr{}, err
	}
	addr, ok := netip.AddrFromSlice(ip)
	if !ok {
		return addr, fmt.Errorf("no address for the default route: %v", ip)
	}
	return addr.Unmap(), nil
}

// Addressing says how the addresses of a node are found.
type Addressing struct {
	// Name is the node's, Hostname what is shown as such.
	Name, Hostname string
	// IPs are those of --node-ip, by ParseNodeIPs.
	IPs []netip.Addr
	// External tells that a cloud provider sets the addresses. The first ones are the
	// node's own all the same if it was given any, and its host name otherwise.
	External bool
	// Network is what is asked.
	Network Network
}

// Addresses returns the addresses to show beside those that are shown already, nil for
// leaving them. What was given must be an address of this machine; otherwise it is the
// host's name if that is an address, what the node's name resolves to on this machine, or
// the address of the default route.
func (a Addressing) Addresses(ctx context.Context, shown []v1.NodeAddress) ([]v1.NodeAddress, error) {
	network := a.Network.withDefaults()
	given := slices.DeleteFunc(slices.Clone(a.IPs), netip.Addr.IsUnspecified)
	for _, ip := range given {
		if err := network.isLocal(ip); err != nil {
			return nil, fmt.Errorf("--node-ip: %w", err)
		}
	}
	switch {
	case a.External && len(shown) > 0:
		return nil, nil
	case a.External && len(a.IPs) == 0:
		return a.list(nil), nil
	case len(given) > 0:
		return a.list(given), nil
	}
	found, err := a.find(ctx, network)
	if err != nil {
		return nil, fmt.Errorf("address of node %s: %w", a.Name, err)
	}
	return a.list([]netip.Addr{found}), nil
}

func (a Addressing) list(ips []netip.Addr) (list []v1.NodeAddress) {
	for _, ip := range ips {
		list = append(list, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip.String()})
	}
	return append(list, v1.NodeAddress{Type: v1.NodeHostName, Address: a.Hostname})
}

func (a Addressing) find(ctx context.Context, network Network) (netip.Addr, error) {
	if ip, err := netip.ParseAddr(a.Hostname); err == nil {
		return ip, nil
	}
	var family netip.Addr
	if len(a.IPs) > 0 {
		family = a.IPs[0]
	}
	candidates, lookup := network.Lookup(ctx, a.Name)
	var found netip.Addr
	for _, ip := range candidates {
		ip = ip.Unmap()
		if network.isLocal(ip) != nil {
			continue
		}
		if preferred := ip.Is4() == (!family.IsValid() || family.Is4()); preferred {
			return ip, nil
		}
		if !found.IsValid() {
			found = ip
		}
	}
	if found.IsValid() {
		return found, nil
	}
	found, err := network.DefaultRoute(family)
	if err != nil {
		return found, errors.Join(err, lookup)
	}
	return found, nil
}

// isLocal refuses addresses that are not the machine's, or that others cannot reach.
func (n Network) isLocal(ip netip.Addr) error {
	if ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() {
		return fmt.Errorf("%s is no address by which others reach this machine", ip)
	}
	local, err := n.Local()
	if err != nil {
		return err
	}
	if !slices.Contains(local, ip) {
		return fmt.Errorf("%s is no address of this machine", ip)
	}
	return nil
}

// provided is the value of the annotation that tells an external cloud provider of the
// addresses that were given, "" for none.
func (a Addressing) provided() string {
	if !a.External || len(a.IPs) == 0 || a.IPs[0].IsUnspecified() {
		return ""
	}
	text := a.IPs[0].String()
	if len(a.IPs) > 1 {
		text += "," + a.IPs[1].String()
	}
	return text
}
