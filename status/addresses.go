package status

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// family has at most one address of each IP family.
type family struct {
	of [2]address
	n  int
}

type address struct {
	text string
	v4   bool
}

// add appends an address if it is valid and the first of its family.
func (f *family) add(text string) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return
	}
	ip = ip.Unmap()
	if f.n == 0 || f.n == 1 && f.isV4() != ip.Is4() {
		f.of[f.n] = address{text: canonical(ip, text), v4: ip.Is4()}
		f.n++
	}
}

// putFirst moves the address of the given family to the front.
func (f *family) putFirst(v4 bool) {
	if f.n == 2 && f.isV4() != v4 {
		slices.Reverse(f.of[:])
	}
}

func (f *family) isV4() bool { return f.of[0].v4 }

// canonical returns the canonical text of ip. It allocates only if text differs from it.
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

func (b *builder) addresses(s *v1.PodStatus) {
	hosts := familyOf(b.in.HostIPs)
	if hosts.n == 0 {
		s.HostIP, s.HostIPs = b.old.HostIP, slices.Clone(b.old.HostIPs)
	} else {
		s.HostIP, s.HostIPs = hosts.of[0].text, make([]v1.HostIP, hosts.n)
		for i := range s.HostIPs {
			s.HostIPs[i].IP = hosts.of[i].text
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
	s.PodIP, s.PodIPs = ips.of[0].text, make([]v1.PodIP, ips.n)
	for i := range s.PodIPs {
		s.PodIPs[i].IP = ips.of[i].text
	}
}

// podIPs returns the sandbox's addresses, the node's primary family first (IPv4 if the node's
// address is unknown). The downward API uses the same order. A pod that has ended keeps its last
// addresses.
func (b *builder) podIPs(phase v1.PodPhase, hostIP string) (ips family) {
	if b.observed() {
		ips = familyOf(b.in.Observed.IPs)
	}
	if ips.n == 0 && (!b.observed() || b.in.Terminal || podfacts.IsTerminalPhase(phase)) {
		ips = familyOfPod(b.old.PodIPs)
	}
	ips.putFirst(!podfacts.IsIPv6(hostIP))
	return ips
}

// hostNetworkIPs returns the addresses of the node at the pod's start. An address of a
// second family is added later; existing ones never change.
func (b *builder) hostNetworkIPs(hosts family) family {
	ips := familyOfPod(b.old.PodIPs)
	for _, host := range hosts.of[:hosts.n] {
		ips.add(host.text)
	}
	return ips
}

func (b *builder) hostIPFamilyChanged() bool {
	var before family
	before.add(b.old.HostIP)
	now := familyOf(b.in.HostIPs)
	return before.n > 0 && now.n > 0 && before.isV4() != now.isV4()
}
