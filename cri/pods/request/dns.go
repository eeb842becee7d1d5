package request

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/internal/podfacts"
)

// The limits of a resolv.conf.
const (
	maxServers        = 3
	maxSearches       = 32
	maxSearchLength   = 255
	maxSearchesLength = 2048
)

// dnsConfig returns a pod's resolver: the configuration of its policy with the pod's own
// additions.
func (b *Builder) dnsConfig(pod *v1.Pod, event podwright.EventFunc) (*runtimeapi.DNSConfig, error) {
	policy := effectiveDNSPolicy(pod)
	if policy == v1.DNSClusterFirst && len(b.cfg.DNS.ClusterServers) == 0 {
		why := fmt.Sprintf("kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to %q policy.", v1.DNSClusterFirst, v1.DNSDefault)
		if name := b.cfg.Node.Name; name != "" { // the event appears on the Node, too
			event(v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}, v1.EventTypeWarning, "MissingClusterDNS", why)
		}
		name := labels.Pod{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}
		event(podfacts.Reference(pod), v1.EventTypeWarning, "MissingClusterDNS", fmt.Sprintf("pod: %q. %s", name, why))
		policy = v1.DNSDefault
	}
	config := &runtimeapi.DNSConfig{}
	if policy != v1.DNSNone {
		host, err := b.hostResolver()
		if err != nil {
			return nil, err
		}
		config = host
	}
	switch {
	case policy == v1.DNSClusterFirst:
		config = b.clusterDNS(pod.Namespace, config)
	case policy == v1.DNSDefault && b.cfg.DNS.NoHostResolver:
		config = b.loopbackDNS()
	}
	addDNS(config, pod.Spec.DNSConfig)
	for _, limit := range limitDNS(config) {
		event(podfacts.Reference(pod), v1.EventTypeWarning, "DNSConfigForming", limit)
	}
	return config, nil
}

func effectiveDNSPolicy(pod *v1.Pod) v1.DNSPolicy {
	switch pod.Spec.DNSPolicy {
	case v1.DNSNone, v1.DNSDefault:
		return pod.Spec.DNSPolicy
	case v1.DNSClusterFirstWithHostNet:
		return v1.DNSClusterFirst
	default:
		if pod.Spec.HostNetwork {
			return v1.DNSDefault
		}
		return v1.DNSClusterFirst
	}
}

func (b *Builder) clusterDNS(namespace string, host *runtimeapi.DNSConfig) *runtimeapi.DNSConfig {
	searches := host.Searches
	if domain := b.cfg.DNS.ClusterDomain; domain != "" {
		searches = append([]string{namespace + ".svc." + domain, "svc." + domain, domain}, searches...)
	}
	return &runtimeapi.DNSConfig{
		Servers:  slices.Clone(b.cfg.DNS.ClusterServers),
		Searches: unique(searches),
		Options:  []string{"ndots:5"},
	}
}

// loopbackDNS returns a resolver with only the pod itself as name server. A runtime would replace
// an empty resolver by the node's.
func (b *Builder) loopbackDNS() *runtimeapi.DNSConfig {
	out := &runtimeapi.DNSConfig{Searches: []string{"."}}
	for _, ip := range b.nodeIPs() {
		server := "127.0.0.1"
		if podfacts.IsIPv6(ip) {
			server = "::1"
		}
		out.Servers = append(out.Servers, server)
	}
	if len(out.Servers) == 0 {
		out.Servers = []string{"127.0.0.1"}
	}
	return out
}

func (b *Builder) hostResolver() (*runtimeapi.DNSConfig, error) {
	if b.cfg.DNS.NoHostResolver {
		return &runtimeapi.DNSConfig{}, nil
	}
	content, err := b.cfg.readFile(b.cfg.DNS.HostResolver)
	if err != nil {
		return nil, fmt.Errorf("host resolver: %w", err)
	}
	return parseResolvConf(content), nil
}

// parseResolvConf parses a resolv.conf. Name servers accumulate; the last search line and the
// last value of each option are used.
func parseResolvConf(content []byte) *runtimeapi.DNSConfig {
	out := &runtimeapi.DNSConfig{}
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "nameserver":
			out.Servers = append(out.Servers, words[1:min(2, len(words))]...)
		case "search":
			out.Searches = nil
			for _, domain := range words[1:] {
				if domain = strings.TrimSuffix(domain, "."); domain != "" {
					out.Searches = append(out.Searches, domain)
				}
			}
		case "options":
			for _, option := range words[1:] {
				out.Options = setOption(out.Options, option)
			}
		}
	}
	return out
}

// setOption replaces the option with the same name, or appends it.
func setOption(options []string, option string) []string {
	name, _, _ := strings.Cut(option, ":")
	for i, have := range options {
		if other, _, _ := strings.Cut(have, ":"); other == name {
			options[i] = option
			return options
		}
	}
	return append(options, option)
}

// addDNS appends the pod's additions to the configuration.
func addDNS(config *runtimeapi.DNSConfig, add *v1.PodDNSConfig) {
	if add == nil {
		return
	}
	config.Servers = unique(append(config.Servers, add.Nameservers...))
	config.Searches = unique(append(config.Searches, add.Searches...))
	for _, option := range add.Options {
		text := option.Name
		if option.Value != nil && *option.Value != "" {
			text += ":" + *option.Value
		}
		config.Options = setOption(config.Options, text)
	}
}

// limitDNS reduces the configuration to the limits of resolvers, and returns a message for each
// reduction.
func limitDNS(config *runtimeapi.DNSConfig) []string {
	var cut []string
	if len(config.Servers) > maxServers {
		config.Servers = config.Servers[:maxServers]
		cut = append(cut, "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "+strings.Join(config.Servers, " "))
	}
	kept := make([]string, 0, len(config.Searches))
	length := -1 // of the kept domains, separated by blanks
	for _, domain := range config.Searches[:min(len(config.Searches), maxSearches)] {
		if len(domain) > maxSearchLength {
			continue
		}
		if length += 1 + len(domain); length > maxSearchesLength {
			break
		}
		kept = append(kept, domain)
	}
	if len(kept) < len(config.Searches) {
		config.Searches = kept
		cut = append(cut, "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "+strings.Join(kept, " "))
	}
	return cut
}

func unique(list []string) []string {
	seen := map[string]bool{}
	out := make([]string, 0, len(list))
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

const defaultResolver = "/etc/resolv.conf"

// clusterSearches is the number of search domains before the node's in a cluster with a domain.
const clusterSearches = 3

// CheckHostResolver returns an error if the node's resolver cannot be read or exceeds the limits
// of resolvers. The error lists the parts that pods do not get. Call it once for the operator;
// pods get the event DNSConfigForming. It returns nil if the node's resolver is not used.
func (d DNS) CheckHostResolver() error {
	if d.NoHostResolver {
		return nil
	}
	path := cmp.Or(d.HostResolver, defaultResolver)
	content, err := readFile(os.Open, path, maxNodeFile)
	if err != nil {
		return fmt.Errorf("read the node's resolver configuration: %w", err)
	}
	return d.checkLimits(path, content)
}

func (d DNS) checkLimits(path string, content []byte) error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...)))
		}
	}
	host, domains := parseResolvConf(content), maxSearches
	if d.ClusterDomain != "" {
		domains -= clusterSearches
	}
	servers, searches := len(host.Servers), len(host.Searches)
	refuse(servers > maxServers, "%d name servers: pods get the first %d", servers, maxServers)
	refuse(searches > domains, "%d search domains: pods get the first %d", searches, domains)
	for _, domain := range host.Searches {
		refuse(len(domain) > maxSearchLength, "a search domain of %d characters: pods get none longer than %d", len(domain), maxSearchLength)
	}
	length := len(strings.Join(host.Searches, " "))
	refuse(length > maxSearchesLength, "search domains of %d characters in total: pods get the first %d", length, maxSearchesLength)
	return errors.Join(errs...)
}
