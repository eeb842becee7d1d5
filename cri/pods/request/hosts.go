package request

import (
	"bytes"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// podHosts returns the /etc/hosts of a pod with its own network.
func podHosts(host, domain string, ips []string) []byte {
	var b bytes.Buffer
	b.WriteString("# Kubernetes-managed hosts file.\n" +
		"127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n")
	for _, ip := range ips {
		b.WriteString(ip + "\t")
		if domain != "" {
			b.WriteString(host + "." + domain + "\t")
		}
		b.WriteString(host + "\n")
	}
	return b.Bytes()
}

// hostAliases returns the lines of the pod's host aliases.
func hostAliases(aliases []v1.HostAlias) []byte {
	if len(aliases) == 0 {
		return nil
	}
	var b bytes.Buffer
	b.WriteString("\n# Entries added by HostAliases.\n")
	for _, a := range aliases {
		b.WriteString(a.IP + "\t" + strings.Join(a.Hostnames, "\t") + "\n")
	}
	return b.Bytes()
}

// Hosts returns the content of the /etc/hosts that all containers of a pod share.
func (b *Builder) Hosts(pod *v1.Pod, ips []string) ([]byte, error) {
	var content []byte
	if pod.Spec.HostNetwork {
		node, err := b.cfg.readFile(b.cfg.DNS.HostsFile)
		if err != nil {
			return nil, err
		}
		content = append([]byte("# Kubernetes-managed hosts file (host network).\n"), node...)
	} else {
		host, domain, err := hostAndDomain(pod, b.cfg.DNS.ClusterDomain)
		if err != nil {
			return nil, err
		}
		content = podHosts(host, domain, ips)
	}
	return append(content, hostAliases(pod.Spec.HostAliases)...), nil
}
