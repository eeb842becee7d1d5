package request

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/podfacts"
)

// Sandbox returns the configuration of a new sandbox. An error affects the whole pod and names
// the field. The events MissingClusterDNS and DNSConfigForming report DNS settings that the pod
// does not get.
func (b *Builder) Sandbox(pod *v1.Pod, attempt uint32) (*runtimeapi.PodSandboxConfig, error) {
	return b.sandbox(pod, attempt, b.cfg.Event)
}

// SandboxAgain returns the configuration of an existing sandbox, for a further container in it.
// It equals the result of Sandbox for the same attempt. It records no events.
func (b *Builder) SandboxAgain(pod *v1.Pod, attempt uint32) (*runtimeapi.PodSandboxConfig, error) {
	return b.sandbox(pod, attempt, func(v1.ObjectReference, string, string, string) {})
}

func (b *Builder) sandbox(pod *v1.Pod, attempt uint32, event podwright.EventFunc) (*runtimeapi.PodSandboxConfig, error) {
	if err := checkPodPorts(pod); err != nil {
		return nil, err
	}
	security, err := b.sandboxSecurity(pod)
	if err != nil {
		return nil, err
	}
	dns, err := b.dnsConfig(pod, event)
	if err != nil {
		return nil, err
	}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt,
		},
		LogDirectory: LogDir(b.cfg.LogRoot, pod.Namespace, pod.Name, pod.UID),
		DnsConfig:    dns,
		PortMappings: portMappings(pod),
		Labels:       b.sandboxLabels(pod),
		Annotations:  pod.Annotations,
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: security,
			Sysctls:         sysctls(pod),
			Resources:       b.sandboxResources(pod),
			Overhead:        b.Overhead(pod),
		},
	}
	if !pod.Spec.HostNetwork {
		if config.Hostname, err = hostname(pod, b.cfg.DNS.ClusterDomain); err != nil {
			return nil, err
		}
	}
	if b.cfg.CgroupParent != nil {
		config.Linux.CgroupParent = b.cfg.CgroupParent(pod)
	}
	return config, nil
}

// PodIPs returns the pod's addresses, one per family, the node's primary family first. observed
// are the sandbox's addresses. A pod on the host network has the node's addresses.
func (b *Builder) PodIPs(pod *v1.Pod, observed []string) []string {
	if pod.Spec.HostNetwork {
		return slices.Clone(b.nodeIPs())
	}
	return podfacts.OrderIPs(observed, b.nodeIPs())
}

// nodeIPs returns the node's addresses that are available now.
func (b *Builder) nodeIPs() []string {
	if len(b.cfg.Node.IPs) == 0 && b.cfg.NodeIPs != nil {
		return b.cfg.NodeIPs()
	}
	return b.cfg.Node.IPs
}

// sysctls returns the pod's sysctls with dotted names, the form that all runtimes accept.
func sysctls(pod *v1.Pod) map[string]string {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	var out map[string]string
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		out = put(out, dotted(s.Name), s.Value)
	}
	return out
}

// dotted converts a sysctl name to the form with dots: net/ipv4/conf/eth0.1/x becomes
// net.ipv4.conf.eth0/1.x. The first separator determines the form; in the slash form, dots become
// slashes.
func dotted(name string) string {
	i := strings.IndexAny(name, "./")
	if i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer("/", ".", ".", "/").Replace(name)
}

const (
	maxHostname = 63
	maxFQDN     = 64
)

// hostname returns the host name of a pod with its own network.
func hostname(pod *v1.Pod, clusterDomain string) (string, error) {
	host, domain, err := hostAndDomain(pod, clusterDomain)
	if domain == "" || !isTrue(pod.Spec.SetHostnameAsFQDN) {
		return host, err
	}
	fqdn := host + "." + domain
	if len(fqdn) > maxFQDN {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested)",
			fqdn, maxFQDN, len(fqdn))
	}
	return fqdn, nil
}

// hostAndDomain returns the two parts of a pod's full name. The domain may be "".
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
		// Without a cluster domain the name ends with a dot, as in the upstream kubelet.
		domain = spec.Subdomain + "." + pod.Namespace + ".svc." + clusterDomain
	}
	return host, domain, nil
}

func valid(field, value string, faults func(string) []string) error {
	if found := faults(value); len(found) > 0 {
		return fmt.Errorf("spec.%s: %q: %s", field, value, strings.Join(found, "; "))
	}
	return nil
}

// cutHostname shortens a name to the kernel's limit.
func cutHostname(name string) (string, error) {
	if len(name) <= maxHostname {
		return name, nil
	}
	cut := strings.TrimRight(name[:maxHostname], "-.")
	if cut == "" {
		return "", fmt.Errorf("%q gives no valid hostname", name)
	}
	return cut, nil
}

// LogDir returns the directory of a pod's logs below root.
func LogDir(root, namespace, name string, uid types.UID) string {
	return filepath.Join(root, namespace+"_"+name+"_"+string(uid))
}

// LogPath returns the log file of one instance of a container, relative to the pod's log
// directory.
func LogPath(container string, restartCount int32) string {
	return filepath.Join(container, strconv.FormatInt(int64(restartCount), 10)+".log")
}
