package pods

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
)

const hostsPath = "/etc/hosts"

// podHosts is the /etc/hosts of a pod with its own network.
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

// hostAliases are the lines that the pod's spec adds.
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

// writeHosts writes the file that all containers of a pod share. It is written
// in place: containers that run have it mounted.
func (m *Manager) writeHosts(pod *v1.Pod, ips []string) (string, error) {
	content, err := m.hosts(pod, ips)
	if err != nil {
		return "", fmt.Errorf("hosts file: %w", err)
	}
	path := filepath.Join(m.cfg.PodDir(pod.UID), "etc-hosts")
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, content) {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", fmt.Errorf("hosts file: %w", err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return "", fmt.Errorf("hosts file: %w", err)
	}
	if err := os.Chmod(path, 0o644); err != nil { // whatever the umask is
		return "", fmt.Errorf("hosts file: %w", err)
	}
	return path, nil
}

func (m *Manager) hosts(pod *v1.Pod, ips []string) ([]byte, error) {
	var content []byte
	if pod.Spec.HostNetwork {
		node, err := os.ReadFile(m.cfg.DNS.HostsFile)
		if err != nil {
			return nil, err
		}
		content = append([]byte("# Kubernetes-managed hosts file (host network).\n"), node...)
	} else {
		host, domain, err := hostAndDomain(pod, m.cfg.DNS.ClusterDomain)
		if err != nil {
			return nil, err
		}
		content = podHosts(host, domain, ips)
	}
	return append(content, hostAliases(pod.Spec.HostAliases)...), nil
}
