package config

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// Embedded is the value of containerRuntimeEndpoint that runs containers as plain host processes of
// the agent.
const Embedded = "embedded"

// Config is the configuration of the kubelet. FromArgs and Default return it with all defaults.
type Config struct {
	// Kubelet is the configuration file with the flags that override its fields. Fields without
	// effect here stay as they are. Paths are absolute.
	Kubelet kubeletv1beta1.KubeletConfiguration
	// Flags are the settings without a field in the file.
	Flags Flags
	// Warnings are about settings that were accepted although they have no effect, and about
	// insecure settings. They contain no values of settings.
	Warnings []string
	files    [2]string // values of --config and --config-dir
	// freePort serves the read-only port on a free port of loopback.
	freePort bool
}

// Flags are the settings of the kubelet without a field in its configuration file.
type Flags struct {
	// NodeName is a DNS-1123 subdomain in lower case (--hostname-override).
	NodeName string
	// RootDir is the absolute path of the agent's own files (--root-dir).
	RootDir string
	// ContainerLogsDir receives a link to each container's log. "" creates no links. It has no
	// flag.
	ContainerLogsDir string
	// CredentialProviderConfig is a file or folder that describes plugins for registry credentials,
	// whose programs are in CredentialProviderBinDir. "" means no plugins
	// (--image-credential-provider-config, --image-credential-provider-bin-dir).
	CredentialProviderConfig, CredentialProviderBinDir string
	// MaxDeadContainers is the total number of dead containers to keep (--maximum-dead-containers).
	// MaxDeadPerContainer is their number per container name
	// (--maximum-dead-containers-per-container). Negative means no limit. Containers younger than
	// MinContainerTTL are always kept (--minimum-container-ttl-duration).
	MaxDeadContainers, MaxDeadPerContainer int
	MinContainerTTL                        time.Duration
	// RuntimeCgroups is the runtime's cgroup, for statistics, or "" if unknown (--runtime-cgroups).
	// The runtime is not moved to it.
	RuntimeCgroups string
	// Kubeconfig is the absolute path of the kubeconfig of the API server (--kubeconfig). ""
	// selects a node without API server, which runs static pods only.
	Kubeconfig string
	// BootstrapKubeconfig is the absolute path of a kubeconfig that may request a node's client
	// certificate. It is used to create a missing Kubeconfig (--bootstrap-kubeconfig).
	BootstrapKubeconfig string
	// CertDir is the absolute path of the folder of the kubelet's certificates, its own and those
	// issued through the API server (--cert-dir).
	CertDir string
	// LockFile is the absolute path of a file that is locked while the kubelet runs, or ""
	// (--lock-file). The kubelet waits while another process has the lock. With
	// ExitOnLockContention the kubelet ends when another process requests the lock
	// (--exit-on-lock-contention).
	LockFile             string
	ExitOnLockContention bool
	// NodeIP are the addresses of the node, at most one of each family (--node-ip). If it is empty,
	// the kubelet determines an address. An unspecified address selects the preferred family.
	NodeIP []netip.Addr
	// NodeLabels are added to the Node at its registration (--node-labels).
	NodeLabels map[string]string
	// ExternalCloud states that a cloud provider completes the Node (--cloud-provider=external).
	ExternalCloud bool
	// ObjectsDir is the absolute path of the folder of the objects that static pods reference
	// (--objects-dir), in the layout of package volume/objects. With "" such pods are rejected.
	// Upstream has no such flag.
	ObjectsDir string
	// AdaptiveRelist adapts the period of relists to the activity of pods (--adaptive-relist).
	// Upstream has no such flag.
	AdaptiveRelist bool
}

// FromArgs reads the command line and its configuration files, sets the defaults and validates the
// result. It writes usage to out. It returns flag.ErrHelp for --help and --version. The caller logs
// the warnings.
func FromArgs(args []string, out io.Writer) (*Config, error) {
	line, err := parse(args, out)
	if err != nil {
		return nil, err
	}
	c := &Config{Flags: line.flags, files: [2]string{line.config, line.configDir}}
	if err := line.read(c); err != nil {
		return nil, err
	}
	errs := problems{c.setNodeName(), c.setFolders(), c.setCredentialProviders()}
	c.setStandalone()
	SetDefaults(&c.Kubelet)
	return c, errors.Join(slices.Concat(errs, c.classify(), c.classifyGates(), c.validate())...)
}

// Default returns the configuration of a kubelet without flags and without a file. NodeName,
// RootDir and ContainerLogsDir are empty, because they depend on the host.
func Default() Config {
	c := Config{Flags: Flags{MaxDeadContainers: -1, MaxDeadPerContainer: 1}}
	SetDefaults(&c.Kubelet)
	return c
}

// HealthzAddress returns the host:port of /healthz, or "" if it is not served.
func (c *Config) HealthzAddress() string {
	return address(c.Kubelet.HealthzBindAddress, *c.Kubelet.HealthzPort)
}

// ReadOnlyAddress returns the host:port of the server without authentication, or "" if there is
// none. A standalone node with the embedded runtime has a free port of loopback by default.
func (c *Config) ReadOnlyAddress() string {
	if c.freePort {
		return "127.0.0.1:0"
	}
	return address(c.Kubelet.Address, c.Kubelet.ReadOnlyPort)
}

func address(host string, port int32) string {
	if port == 0 {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
