package config

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// Embedded is the value of containerRuntimeEndpoint that runs containers as
// plain host processes of the agent.
const Embedded = "embedded"

// Config is what the kubelet is told. What FromArgs and Default return has all
// defaults filled in.
type Config struct {
	// Kubelet is the configuration file, with the flags that set its fields put over
	// it. Fields that have no effect here stay as they are. Paths are absolute.
	Kubelet kubeletv1beta1.KubeletConfiguration
	// Flags are what the file has no field for.
	Flags Flags
	// files are --config and --config-dir.
	files [2]string
}

// Flags are the settings of the kubelet that its configuration file has no fields
// for.
type Flags struct {
	// NodeName is lower case and a DNS-1123 subdomain (--hostname-override).
	NodeName string
	// RootDir holds the agent's own files (--root-dir). Absolute.
	RootDir string
	// ContainerLogsDir gets a link to each container's log; "" for no links. No flag
	// sets it.
	ContainerLogsDir string
	// CredentialProviderConfig is the file, or folder, that names the plugins in
	// CredentialProviderBinDir which know credentials for registries; "" for none
	// (--image-credential-provider-config, --image-credential-provider-bin-dir).
	CredentialProviderConfig, CredentialProviderBinDir string
	// MaxDeadContainers is how many dead containers are kept in all, negative for no
	// limit (--maximum-dead-containers); MaxDeadPerContainer how many of each name
	// (--maximum-dead-containers-per-container). Younger ones than MinContainerTTL are
	// kept whatever their number (--minimum-container-ttl-duration).
	MaxDeadContainers, MaxDeadPerContainer int
	MinContainerTTL                        time.Duration
	// RuntimeCgroups is the cgroup that the runtime is in, for statistics; "" for not known
	// (--runtime-cgroups).
	RuntimeCgroups string
	// Kubeconfig says how the API server is reached (--kubeconfig); "" for a node without
	// one, which runs static pods only. Absolute.
	Kubeconfig string
	// BootstrapKubeconfig is somebody's who may ask for the certificate of a node, with which
	// Kubeconfig is made if it is not there (--bootstrap-kubeconfig). Absolute.
	BootstrapKubeconfig string
	// CertDir has the certificates that the kubelet makes or is given by the API server
	// (--cert-dir). Absolute.
	CertDir string
	// LockFile is locked while the kubelet runs, "" for none (--lock-file). Whoever has it is
	// waited for; with ExitOnLockContention the kubelet makes room for whoever wants it
	// (--exit-on-lock-contention). Absolute.
	LockFile             string
	ExitOnLockContention bool
	// NodeIP are the addresses of the node, at most one of each family (--node-ip); empty
	// to find one. An unspecified one only says which family is preferred.
	NodeIP []netip.Addr
	// NodeLabels are added to the Node at its registration (--node-labels).
	NodeLabels map[string]string
	// ExternalCloud: somebody else completes the Node (--cloud-provider=external).
	ExternalCloud bool
	// ObjectsDir has the objects that static pods refer to (--objects-dir), laid out as
	// package volume/objects says; "" for none: such pods are refused. A flag of this
	// kubelet's own. Absolute.
	ObjectsDir string
	// AdaptiveRelist lets the pause between lists of the runtime's pods follow what
	// happens (--adaptive-relist). A flag of this kubelet's own.
	AdaptiveRelist bool
}

// FromArgs reads the command line and the configuration file it names, fills in the
// defaults and validates. Usage goes to out. flag.ErrHelp is returned for --help.
func FromArgs(args []string, out io.Writer) (*Config, error) {
	line, err := parse(args, out)
	if err != nil {
		return nil, err
	}
	c := &Config{Flags: line.flags, files: [2]string{line.config, line.configDir}}
	if err := line.read(&c.Kubelet); err != nil {
		return nil, err
	}
	err = errors.Join(c.setNodeName(), c.setFolders(), c.setCredentialProviders())
	c.setStandalone()
	SetDefaults(&c.Kubelet)
	return c, errors.Join(err, c.validate())
}

// Default returns the configuration of a kubelet without flags and without a file. It
// has no NodeName, no RootDir and no ContainerLogsDir: these depend on the host.
func Default() Config {
	c := Config{Flags: Flags{MaxDeadContainers: -1, MaxDeadPerContainer: 1}}
	SetDefaults(&c.Kubelet)
	return c
}

// HealthzAddress is the host:port of /healthz, "" for no server.
func (c *Config) HealthzAddress() string {
	return address(c.Kubelet.HealthzBindAddress, *c.Kubelet.HealthzPort)
}

// ReadOnlyAddress is the host:port of the server without authentication, "" for none.
func (c *Config) ReadOnlyAddress() string {
	return address(c.Kubelet.Address, c.Kubelet.ReadOnlyPort)
}

func address(host string, port int32) string {
	if port == 0 {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
