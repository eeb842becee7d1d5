package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/cri"
)

// Embedded is the value of ContainerRuntimeEndpoint that runs containers as
// plain host processes of the agent.
const Embedded = "embedded"

// Config is what the kubelet is told, with every default filled in.
type Config struct {
	// NodeName is lower case and a DNS-1123 subdomain.
	NodeName string
	// RootDir holds the agent's own files.
	RootDir string
	// PodManifestPath is the folder, or the one file, with static pods; "" for none.
	PodManifestPath string
	// ManifestURL is where a web server has static pods, "" for none; it is asked
	// with ManifestURLHeader once per HTTPCheckFrequency.
	ManifestURL        string
	ManifestURLHeader  http.Header
	HTTPCheckFrequency time.Duration
	// PodLogsDir holds container logs; ContainerLogsDir links to them, "" for no links.
	PodLogsDir, ContainerLogsDir string
	// RuntimeEndpoint is a unix socket or Embedded. ImageEndpoint is the same
	// unless set.
	RuntimeEndpoint, ImageEndpoint string
	// RuntimeRequestTimeout bounds calls to the runtime.
	RuntimeRequestTimeout time.Duration
	// HealthzAddress and ReadOnlyAddress are host:port, "" for no server.
	HealthzAddress, ReadOnlyAddress string
	// SyncFrequency is the resync interval of a pod; FileCheckFrequency is how
	// often the manifests are listed without being told to.
	SyncFrequency, FileCheckFrequency time.Duration
	// MaxCrashLoopBackoff bounds the delay before a crashing container restarts.
	MaxCrashLoopBackoff time.Duration
	// MaxParallelImagePulls is 1 for one pull at a time and 0 for no limit.
	MaxParallelImagePulls int
	// RegistryPullQPS is 0 for no limit.
	RegistryPullQPS, RegistryBurst int
	// CredentialProviderConfig is the file, or folder, that names the plugins in
	// CredentialProviderBinDir which know credentials for registries; "" for none.
	CredentialProviderConfig, CredentialProviderBinDir string
	// ImagePullVerification is imagePullCredentialsVerificationPolicy, and
	// ImagePullAllowlist preloadedImagesVerificationAllowlist.
	ImagePullVerification string
	ImagePullAllowlist    []string
	// ImageGCHigh and ImageGCLow are in percent; a high one of 100 is never reached.
	ImageGCHigh, ImageGCLow int
	// ImageMinAge keeps young images; ImageMaxAge removes those that were unused for
	// longer, zero: none.
	ImageMinAge, ImageMaxAge time.Duration
	// LogMaxSize in bytes is when a container's log is rotated, negative for never;
	// LogMaxFiles is how many files it has then, LogWorkers how many are rotated at a
	// time, LogPeriod how often sizes are looked at.
	LogMaxSize              int64
	LogMaxFiles, LogWorkers int
	LogPeriod               time.Duration
	// DeadContainers is how many dead containers are kept in all, negative for no
	// limit; DeadPerContainer how many of each name; younger ones than DeadMinAge
	// are kept whatever their number.
	DeadContainers, DeadPerContainer int
	DeadMinAge                       time.Duration
	// IDsPerPod is how many users a pod with users of its own has.
	IDsPerPod int64
	// LimitedSwap lets Burstable containers swap, each as much as its part of the
	// node's memory is (memorySwap.swapBehavior).
	LimitedSwap bool
	// ClusterDNS are the cluster's name servers, ClusterDomain its domain.
	ClusterDNS    []string
	ClusterDomain string
	// ResolvConf is the node's resolver, for pods that use it; "" for none.
	ResolvConf string
	// CPUQuota enforces CPU limits, each within CPUQuotaPeriod.
	CPUQuota       bool
	CPUQuotaPeriod time.Duration
	// SeccompDefault gives containers without a seccomp profile the runtime's.
	SeccompDefault bool
	// SingleProcessOOMKill leaves the other processes of a container alive when
	// the kernel kills one for lack of memory.
	SingleProcessOOMKill bool
	// AdaptiveRelist lets the pause between lists of the runtime's pods follow what
	// happens. A flag of this kubelet's own.
	AdaptiveRelist bool
	// Verbosity is the number given with --v.
	Verbosity int
}

// flags are the command line's values; set tells which of them were given.
type flags struct {
	config, endpoint, manifests, url, root, hostname string
	header                                           headerFlag
	readOnlyPort, healthzPort, verbosity             int
	adaptiveRelist                                   bool
	providers, providerBin                           string
	deadContainers, deadPerContainer                 int
	deadMinAge                                       time.Duration
	set                                              map[string]bool
}

// FromArgs reads the command line and the configuration file it names. Usage
// goes to out. flag.ErrHelp is returned for --help.
func FromArgs(args []string, out io.Writer) (*Config, error) {
	f, err := parseFlags(args, out)
	if err != nil {
		return nil, err
	}
	file := &kubeletv1beta1.KubeletConfiguration{}
	if f.config != "" {
		if file, err = ReadFile(f.config); err != nil {
			return nil, err
		}
	}
	f.override(file)
	return complete(f, file)
}

func parseFlags(args []string, out io.Writer) (*flags, error) {
	f := &flags{set: map[string]bool{}, header: headerFlag{}}
	fs := flag.NewFlagSet("kubelet", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.StringVar(&f.config, "config", "", "configuration file, kubelet.config.k8s.io/v1beta1 KubeletConfiguration")
	fs.StringVar(&f.endpoint, "container-runtime-endpoint", "", "CRI socket, or \"embedded\" for containers as host processes (default unix:///run/containerd/containerd.sock)")
	fs.StringVar(&f.manifests, "pod-manifest-path", "", "folder, or file, with the manifests of static pods")
	fs.StringVar(&f.url, "manifest-url", "", "URL of static pods: a Pod or a PodList")
	fs.Var(f.header, "manifest-url-header", "headers for --manifest-url, as name:value,name:value; may be given several times")
	fs.StringVar(&f.root, "root-dir", "", "folder for the kubelet's files (default /var/lib/kubelet; with the embedded runtime, the user's state folder)")
	fs.StringVar(&f.hostname, "hostname-override", "", "node name (default: the host's name)")
	fs.IntVar(&f.readOnlyPort, "read-only-port", 0, "port that serves /pods and /statusz/pods without authentication (0: none)")
	fs.IntVar(&f.healthzPort, "healthz-port", 10248, "port of /healthz on localhost (0: none)")
	fs.BoolVar(&f.adaptiveRelist, "adaptive-relist", false, "list the pods of a runtime without events every 100 ms after activity, every 5 s at rest, instead of every second")
	fs.StringVar(&f.providers, "image-credential-provider-config", "", "file, or folder of files, kubelet.config.k8s.io CredentialProviderConfig: plugins that know credentials for registries")
	fs.StringVar(&f.providerBin, "image-credential-provider-bin-dir", "", "folder of the programs that --image-credential-provider-config names")
	fs.IntVar(&f.deadContainers, "maximum-dead-containers", -1, "how many dead containers are kept in all, beside the last one of each (negative: no limit)")
	fs.IntVar(&f.deadPerContainer, "maximum-dead-containers-per-container", 1, "how many dead instances of each container are kept (negative: no limit)")
	fs.DurationVar(&f.deadMinAge, "minimum-container-ttl-duration", 0, "dead containers younger than this are kept, whatever their number")
	fs.IntVar(&f.verbosity, "v", 0, "log verbosity; 4 and more is debug output")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q: only flags are taken", fs.Arg(0))
	}
	fs.Visit(func(fl *flag.Flag) { f.set[fl.Name] = true })
	return f, nil
}

// override puts the flags that were given over the file's values.
func (f *flags) override(file *kubeletv1beta1.KubeletConfiguration) {
	if f.set["container-runtime-endpoint"] {
		file.ContainerRuntimeEndpoint = f.endpoint
	}
	if f.set["pod-manifest-path"] {
		file.StaticPodPath = f.manifests
	}
	if f.set["manifest-url"] {
		file.StaticPodURL = f.url
	}
	if f.set["manifest-url-header"] {
		file.StaticPodURLHeader = f.header
	}
	if f.set["read-only-port"] {
		file.ReadOnlyPort = int32(f.readOnlyPort)
	}
	if f.set["healthz-port"] {
		port := int32(f.healthzPort)
		file.HealthzPort = &port
	}
}

func complete(f *flags, file *kubeletv1beta1.KubeletConfiguration) (*Config, error) {
	c := &Config{
		PodManifestPath:       file.StaticPodPath,
		PodLogsDir:            file.PodLogsDir,
		RuntimeEndpoint:       either(file.ContainerRuntimeEndpoint, "unix:///run/containerd/containerd.sock"),
		RuntimeRequestTimeout: durationOr(file.RuntimeRequestTimeout, 2*time.Minute),
		SyncFrequency:         durationOr(file.SyncFrequency, time.Minute),
		FileCheckFrequency:    durationOr(file.FileCheckFrequency, 20*time.Second),
		MaxCrashLoopBackoff:   5 * time.Minute,
		RegistryPullQPS:       int(valueOr(file.RegistryPullQPS, 5)),
		RegistryBurst:         int(file.RegistryBurst),
		ClusterDNS:            file.ClusterDNS,
		ClusterDomain:         file.ClusterDomain,
		ResolvConf:            valueOr(file.ResolverConfig, "/etc/resolv.conf"),
		CPUQuota:              valueOr(file.CPUCFSQuota, true),
		CPUQuotaPeriod:        valueOr(file.CPUCFSQuotaPeriod, metav1.Duration{Duration: 100 * time.Millisecond}).Duration,
		SeccompDefault:        valueOr(file.SeccompDefault, false),
		SingleProcessOOMKill:  valueOr(file.SingleProcessOOMKill, false),
		Verbosity:             f.verbosity,
		AdaptiveRelist:        f.adaptiveRelist,
	}
	c.ImageEndpoint = either(file.ImageServiceEndpoint, c.RuntimeEndpoint)
	if c.RegistryBurst == 0 {
		c.RegistryBurst = 10
	}
	if p := file.CrashLoopBackOff.MaxContainerRestartPeriod; p != nil {
		c.MaxCrashLoopBackoff = p.Duration
	}
	err := errors.Join(
		c.setNodeName(f.hostname),
		c.setFolders(f.root),
		c.setManifestURL(file),
		c.setServers(file),
		c.setPulls(file),
		c.setCredentialProviders(f),
		c.setImages(file),
		c.setLogs(file),
		c.setDeadContainers(f),
		c.setUsers(file),
		c.setSwap(file),
		c.validate(),
	)
	return c, err
}

func (c *Config) setNodeName(override string) error {
	name := override
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("node name: %w (--hostname-override sets one)", err)
		}
		name = host
	}
	c.NodeName = strings.ToLower(strings.TrimSpace(name))
	if problems := validation.IsDNS1123Subdomain(c.NodeName); len(problems) > 0 {
		return fmt.Errorf("node name %q (--hostname-override): %s", c.NodeName, strings.Join(problems, "; "))
	}
	return nil
}

// setFolders picks the folders: the system's for a real runtime, the user's for
// the embedded one, which needs no root.
func (c *Config) setFolders(root string) error {
	embedded := c.RuntimeEndpoint == Embedded
	switch {
	case root != "":
		c.RootDir = root
	case embedded:
		state, err := userStateDir()
		if err != nil {
			return fmt.Errorf("--root-dir is not set, and there is no folder for user state: %w", err)
		}
		c.RootDir = filepath.Join(state, "podwright")
	default:
		c.RootDir = "/var/lib/kubelet"
	}
	var err error
	if c.RootDir, err = filepath.Abs(c.RootDir); err != nil {
		return fmt.Errorf("--root-dir: %w", err)
	}
	if c.PodManifestPath != "" {
		if c.PodManifestPath, err = filepath.Abs(c.PodManifestPath); err != nil {
			return fmt.Errorf("--pod-manifest-path: %w", err)
		}
	}
	switch {
	case c.PodLogsDir != "":
	case embedded:
		c.PodLogsDir = filepath.Join(c.RootDir, "logs")
	default:
		c.PodLogsDir = "/var/log/pods"
	}
	if !embedded {
		c.ContainerLogsDir = "/var/log/containers"
	}
	return nil
}

func userStateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state"), nil
}

func (c *Config) setServers(file *kubeletv1beta1.KubeletConfiguration) error {
	var errs []error
	address := func(field, host string, port int32) string {
		if port < 0 || port > 65535 {
			errs = append(errs, fmt.Errorf("%s: %d is not a port (0 to 65535)", field, port))
		}
		if net.ParseIP(host) == nil {
			errs = append(errs, fmt.Errorf("%s: %q is not an IP address", field, host))
		}
		if port == 0 {
			return ""
		}
		return net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	c.HealthzAddress = address("healthzPort", either(file.HealthzBindAddress, "127.0.0.1"), valueOr(file.HealthzPort, 10248))
	c.ReadOnlyAddress = address("readOnlyPort", either(file.Address, "0.0.0.0"), file.ReadOnlyPort)
	return errors.Join(errs...)
}

func (c *Config) setPulls(file *kubeletv1beta1.KubeletConfiguration) error {
	limit := int(valueOr(file.MaxParallelImagePulls, 0))
	serial := limit < 2
	if file.SerializeImagePulls != nil {
		serial = *file.SerializeImagePulls
	}
	switch {
	case limit < 0:
		return fmt.Errorf("maxParallelImagePulls: %d is negative", limit)
	case serial && limit > 1:
		return fmt.Errorf("maxParallelImagePulls: %d contradicts serializeImagePulls: true", limit)
	case serial:
		c.MaxParallelImagePulls = 1
	default:
		c.MaxParallelImagePulls = limit
	}
	return nil
}

func (c *Config) validate() error {
	var errs []error
	positive := func(field string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s: %s is not positive", field, d))
		}
	}
	if c.RuntimeEndpoint != Embedded {
		endpoint := func(field, value string) {
			if _, err := cri.ParseEndpoint(value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w (or %q)", field, err, Embedded))
			}
		}
		endpoint("containerRuntimeEndpoint", c.RuntimeEndpoint)
		if c.ImageEndpoint != c.RuntimeEndpoint && c.ImageEndpoint != Embedded {
			endpoint("imageServiceEndpoint", c.ImageEndpoint)
		}
	}
	positive("syncFrequency", c.SyncFrequency)
	positive("fileCheckFrequency", c.FileCheckFrequency)
	positive("runtimeRequestTimeout", c.RuntimeRequestTimeout)
	if c.MaxCrashLoopBackoff < time.Second || c.MaxCrashLoopBackoff > 5*time.Minute {
		errs = append(errs, fmt.Errorf("crashLoopBackOff.maxContainerRestartPeriod: %s is not within 1s and 300s", c.MaxCrashLoopBackoff))
	}
	if c.CPUQuotaPeriod < time.Millisecond || c.CPUQuotaPeriod > time.Second {
		errs = append(errs, fmt.Errorf("cpuCFSQuotaPeriod: %s is not within 1ms and 1s", c.CPUQuotaPeriod))
	}
	for _, server := range c.ClusterDNS {
		if net.ParseIP(server) == nil {
			errs = append(errs, fmt.Errorf("clusterDNS: %q is not an IP address", server))
		}
	}
	if c.RegistryPullQPS < 0 || c.RegistryBurst < 0 {
		errs = append(errs, fmt.Errorf("registryPullQPS, registryBurst: %d, %d: negative", c.RegistryPullQPS, c.RegistryBurst))
	}
	if c.PodLogsDir != "" && (!filepath.IsAbs(c.PodLogsDir) || filepath.Clean(c.PodLogsDir) != c.PodLogsDir) {
		errs = append(errs, fmt.Errorf("podLogsDir: %q is not an absolute, clean path", c.PodLogsDir))
	}
	if c.ImageEndpoint != c.RuntimeEndpoint && (c.ImageEndpoint == Embedded || c.RuntimeEndpoint == Embedded) {
		errs = append(errs, errors.New("imageServiceEndpoint: the embedded runtime brings its own images"))
	}
	return errors.Join(errs...)
}

func either(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
