package request

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	maxHostname = 63
	maxFQDN     = 64
)

// hostname is what a pod with its own network calls itself.
func hostname(pod *v1.Pod, clusterDomain string) (string, error) {
	host, domain, err := hostAndDomain(pod, clusterDomain)
	if domain == "" || !isTrue(pod.Spec.SetHostnameAsFQDN) {
		return host, err
	}
	fqdn := host + "." + domain
	if len(fqdn) > maxFQDN {
		return "", fmt.Errorf("setHostnameAsFQDN: %q is longer than %d characters", fqdn, maxFQDN)
	}
	return fqdn, nil
}

// hostAndDomain are the two parts of a pod's full name; the domain may be "".
func hostAndDomain(pod *v1.Pod, clusterDomain string) (host, domain string, err error) {
	spec := &pod.Spec
	if o := spec.HostnameOverride; o != nil && *o != "" {
		if err := valid("hostnameOverride", *o, validation.IsDNS1123Subdomain); err != nil {
			return "", "", err
		}
		host, err = cutHostname(*o)
		return host, "", err
	}
	host = pod.Name
	if spec.Hostname != "" {
		if err := valid("hostname", spec.Hostname, validation.IsDNS1123Label); err != nil {
			return "", "", err
		}
		host = spec.Hostname
	}
	if host, err = cutHostname(host); err != nil {
		return "", "", err
	}
	if spec.Subdomain != "" {
		if err := valid("subdomain", spec.Subdomain, validation.IsDNS1123Label); err != nil {
			return "", "", err
		}
		if clusterDomain != "" {
			domain = spec.Subdomain + "." + pod.Namespace + ".svc." + clusterDomain
		}
	}
	return host, domain, nil
}

func valid(field, value string, faults func(string) []string) error {
	if found := faults(value); len(found) > 0 {
		return fmt.Errorf("spec.%s: %q: %s", field, value, strings.Join(found, "; "))
	}
	return nil
}

// cutHostname makes a name fit into the kernel's.
func cutHostname(name string) (string, error) {
	if len(name) <= maxHostname {
		return name, nil
	}
	cut := strings.TrimRight(name[:maxHostname], "-.")
	if cut == "" {
		return "", fmt.Errorf("%q makes no hostname", name)
	}
	return cut, nil
}
