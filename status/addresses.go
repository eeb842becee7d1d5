package status

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// addresses sets the pod's and the host's addresses.
func (b *builder) addresses(s *v1.PodStatus) {
	hosts := onePerFamily(b.in.HostIPs, nil)
	if len(hosts) == 0 {
		s.HostIP, s.HostIPs = b.old.HostIP, b.old.HostIPs
	} else {
		s.HostIP = hosts[0].String()
		for _, ip := range hosts {
			s.HostIPs = append(s.HostIPs, v1.HostIP{IP: ip.String()})
		}
	}
	var ips []netip.Addr
	if b.in.Pod.Spec.HostNetwork {
		ips = b.hostNetworkIPs(hosts)
	} else {
		ips = b.podIPs(s.Phase, hosts)
	}
	for i, ip := range ips {
		if i == 0 {
			s.PodIP = ip.String()
		}
		s.PodIPs = append(s.PodIPs, v1.PodIP{IP: ip.String()})
	}
}

// podIPs are the sandbox's addresses, the node's primary family first. A pod
// that has ended keeps those it had.
func (b *builder) podIPs(phase v1.PodPhase, hosts []netip.Addr) []netip.Addr {
	var observed []string
	if b.observed() {
		observed = b.in.Observed.IPs
	}
	if len(observed) == 0 && (!b.observed() || b.in.Terminal || podfacts.IsTerminalPhase(phase)) {
		observed = texts(b.old.PodIPs)
	}
	return onePerFamily(observed, hosts)
}

// hostNetworkIPs are the node's addresses as they were when the pod got them.
// Only a second family may come in addition.
func (b *builder) hostNetworkIPs(hosts []netip.Addr) []netip.Addr {
	ips := onePerFamily(texts(b.old.PodIPs), nil)
	if len(ips) == 0 {
		return hosts
	}
	for _, host := range hosts {
		if len(ips) == 1 && host.Is4() != ips[0].Is4() {
			ips = append(ips, host)
		}
	}
	return ips
}

// hostIPFamilyChanged compares the host IP reported before with the node's
// primary one.
func (b *builder) hostIPFamilyChanged() bool {
	before, now := onePerFamily([]string{b.old.HostIP}, nil), onePerFamily(b.in.HostIPs, nil)
	return len(before) > 0 && len(now) > 0 && before[0].Is4() != now[0].Is4()
}

// onePerFamily keeps the first valid address of each family, that of the first
// host address in front, else in the order given.
func onePerFamily(ips []string, hosts []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, text := range ips {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		ip = ip.Unmap()
		if len(out) == 0 || len(out) == 1 && out[0].Is4() != ip.Is4() {
			out = append(out, ip)
		}
	}
	if len(out) == 2 && len(hosts) > 0 && out[0].Is4() != hosts[0].Is4() {
		out[0], out[1] = out[1], out[0]
	}
	return out
}

func texts(ips []v1.PodIP) []string {
	out := make([]string, 0, len(ips))
	for _, ip := range ips {
		out = append(out, ip.IP)
	}
	return out
}
