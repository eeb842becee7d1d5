package request

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
)

// defaultResolver is where a node has its resolver.
const defaultResolver = "/etc/resolv.conf"

// clusterSearches is how many search domains come before the node's in a cluster with a domain.
const clusterSearches = 3

// CheckHostResolver says what of the node's resolver pods do not get, since it has more than
// resolvers take, or that it cannot be read: for the operator, once, where a pod that lacks
// something has an event of its own (DNSConfigForming). nil if there is nothing, or no resolver of
// the node is used.
func (d DNS) CheckHostResolver() error {
	if d.NoHostResolver {
		return nil
	}
	path := cmp.Or(d.HostResolver, defaultResolver)
	content, err := readFile(os.Open, path, maxNodeFile)
	if err != nil {
		return fmt.Errorf("the node's resolver cannot be read: %w", err)
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
		refuse(len(domain) > maxSearchLength, "a search domain of %d characters: pods get none of more than %d", len(domain), maxSearchLength)
	}
	length := len(strings.Join(host.Searches, " "))
	refuse(length > maxSearchesLength, "search domains of %d characters together: pods get the first %d", length, maxSearchesLength)
	return errors.Join(errs...)
}
