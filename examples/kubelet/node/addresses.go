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

// providedNodeIP is the annotation with the addresses of --node-ip for an external cloud provider.
const providedNodeIP = "alpha.kubernetes.io/provided-node-ip"

// Network provides the network facts for a node's addresses. The zero value reads them from this
// machine.
type Network struct {
	// Lookup resolves a name. Default: the system's resolver.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Local returns the addresses of the machine's interfaces. Default: this machine's.
	Local func() ([]netip.Addr, error)
	// DefaultRoute returns the machine's address on its default route. family is an unspecified
	// address whose family is preferred, or the zero Addr for any. Default: from the route tables.
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

// Addressing determines the addresses of a node.
type Addressing struct {
	// Name is the node's name. Hostname is the reported host name.
	Name, Hostname string
	// IPs are the addresses of --node-ip; see ParseNodeIPs.
	IPs []netip.Addr
	// External states that a cloud provider sets the addresses. The node initially reports the
	// addresses of --node-ip, if any, and its host name.
	External bool
	Network  Network
}

// Addresses returns the addresses to report, or nil to keep shown, the reported ones. Addresses of
// --node-ip must be this machine's. Without them, the address is the host name if that is an
// address, else an address of this machine to which the node's name resolves, else the address of
// the default route.
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

// isLocal returns an error for addresses that are not this machine's, or that other machines cannot
// reach.
func (n Network) isLocal(ip netip.Addr) error {
	if ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() {
		return fmt.Errorf("%s is not an address at which other machines can reach this one", ip)
	}
	local, err := n.Local()
	if err != nil {
		return err
	}
	if !slices.Contains(local, ip) {
		return fmt.Errorf("%s is not an address of this machine", ip)
	}
	return nil
}

// provided returns the value of the annotation for an external cloud provider, or "".
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
