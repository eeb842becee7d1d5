package status

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// family holds up to two addresses, no two of one family, in canonical text.
type family struct {
	addr [2]netip.Addr
	text [2]string
	n    int
}

// add takes an address if it is the first of its family. What is no address is
// left out.
func (f *family) add(text string) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return
	}
	ip = ip.Unmap()
	if f.n == 0 || f.n == 1 && f.addr[0].Is4() != ip.Is4() {
		f.addr[f.n], f.text[f.n] = ip, canonical(ip, text)
		f.n++
	}
}

// lead puts the address of a family in front.
func (f *family) lead(v4 bool) {
	if f.n == 2 && f.addr[0].Is4() != v4 {
		slices.Reverse(f.addr[:])
		slices.Reverse(f.text[:])
	}
}

// isV4 tells the family of the first address.
func (f *family) isV4() bool { return f.addr[0].Is4() }

// canonical is the text itself where it is canonical.
func canonical(ip netip.Addr, text string) string {
	var buffer [64]byte
	if string(ip.AppendTo(buffer[:0])) == text {
		return text
	}
	return ip.String()
}

func familyOf(ips []string) (f family) {
	for _, ip := range ips {
		f.add(ip)
	}
	return f
}

func familyOfPod(ips []v1.PodIP) (f family) {
	for i := range ips {
		f.add(ips[i].IP)
	}
	return f
}

// addresses sets the pod's and the host's addresses.
func (b *builder) addresses(s *v1.PodStatus) {
	hosts := familyOf(b.in.HostIPs)
	if hosts.n == 0 {
		s.HostIP, s.HostIPs = b.old.HostIP, slices.Clone(b.old.HostIPs)
	} else {
		s.HostIP, s.HostIPs = hosts.text[0], make([]v1.HostIP, hosts.n)
		for i := range s.HostIPs {
			s.HostIPs[i].IP = hosts.text[i]
		}
	}
	var ips family
	if b.in.Pod.Spec.HostNetwork {
		ips = b.hostNetworkIPs(hosts)
	} else {
		ips = b.podIPs(s.Phase, s.HostIP)
	}
	if ips.n == 0 {
		return
	}
	s.PodIP, s.PodIPs = ips.text[0], make([]v1.PodIP, ips.n)
	for i := range s.PodIPs {
		s.PodIPs[i].IP = ips.text[i]
	}
}

// podIPs are the sandbox's addresses, that of the node's primary family first,
// and of version 4 while the node's is not known: in the order that the downward
// API tells them. A pod that has ended keeps those it had.
func (b *builder) podIPs(phase v1.PodPhase, hostIP string) (ips family) {
	if b.observed() {
		ips = familyOf(b.in.Observed.IPs)
	}
	if ips.n == 0 && (!b.observed() || b.in.Terminal || podfacts.IsTerminalPhase(phase)) {
		ips = familyOfPod(b.old.PodIPs)
	}
	ips.lead(!podfacts.IsIPv6(hostIP))
	return ips
}

// hostNetworkIPs are the node's addresses as they were when the pod got them.
// Only a second family may come in addition.
func (b *builder) hostNetworkIPs(hosts family) family {
	ips := familyOfPod(b.old.PodIPs)
	if ips.n == 0 {
		return hosts
	}
	for _, host := range hosts.text[:hosts.n] {
		ips.add(host)
	}
	return ips
}

// hostIPFamilyChanged compares the host IP reported before with the node's
// primary one.
func (b *builder) hostIPFamilyChanged() bool {
	var before family
	before.add(b.old.HostIP)
	now := familyOf(b.in.HostIPs)
	return before.n > 0 && now.n > 0 && before.isV4() != now.isV4()
}
