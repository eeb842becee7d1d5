package fake

import (
	"fmt"
	"net/netip"
	"strings"
)

// addressPool allocates sandbox addresses, one of each range. A released address is reused only
// after the whole range, so that a stale address does not soon belong to another sandbox. Guarded
// by Runtime.mu.
type addressPool struct {
	fixed  []string
	ranges []addressRange
	used   map[string]struct{}
}

type addressRange struct {
	prefix netip.Prefix
	last   netip.Addr // the last allocated address
}

// newAddressPool returns a pool of fixed addresses, or of prefixes. Default: 10.88.0.0/16.
func newAddressPool(fixed []string, prefixes ...netip.Prefix) addressPool {
	p := addressPool{fixed: append([]string(nil), fixed...), used: map[string]struct{}{}}
	if len(prefixes) == 0 {
		prefixes = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 88, 0, 0}), 16)}
	}
	p.setRanges(prefixes)
	return p
}

// setRanges sets the ranges of further addresses.
func (p *addressPool) setRanges(prefixes []netip.Prefix) {
	p.ranges = make([]addressRange, 0, len(prefixes))
	for _, prefix := range prefixes {
		// The first two addresses belong to the network and the gateway.
		masked := prefix.Masked()
		p.ranges = append(p.ranges, addressRange{prefix: masked, last: masked.Addr().Next()})
	}
}

func (p *addressPool) prefixes() []netip.Prefix {
	prefixes := make([]netip.Prefix, len(p.ranges))
	for i, r := range p.ranges {
		prefixes[i] = r.prefix
	}
	return prefixes
}

// take allocates the addresses of a new sandbox.
func (p *addressPool) take() ([]string, error) {
	if len(p.fixed) > 0 {
		return append([]string(nil), p.fixed...), nil
	}
	taken := make([]string, 0, len(p.ranges))
	for i := range p.ranges {
		ip, ok := p.ranges[i].next(p.used)
		if !ok {
			p.give(taken)
			return nil, fmt.Errorf("no IP addresses available in range set: %s", p.ranges[i].prefix)
		}
		p.used[ip] = struct{}{}
		taken = append(taken, ip)
	}
	return taken, nil
}

// give releases addresses.
func (p *addressPool) give(ips []string) {
	for _, ip := range ips {
		delete(p.used, ip)
	}
}

func (r *addressRange) next(used map[string]struct{}) (string, bool) {
	first := r.prefix.Addr().Next().Next()
	if !r.prefix.Contains(first) {
		return "", false
	}
	start := r.last.Next()
	for tries, addr := 0, start; tries == 0 || addr != start; tries, addr = tries+1, addr.Next() {
		if !r.prefix.Contains(addr) {
			if addr = first; tries > 0 && addr == start {
				break
			}
			if tries == 0 {
				start = first
			}
		}
		if _, taken := used[addr.String()]; !taken {
			r.last = addr
			return addr.String(), true
		}
	}
	return "", false
}

// parseRanges parses the ranges of UpdateRuntimeConfig, separated by commas.
func parseRanges(text string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, part := range strings.Split(text, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}
