package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/examples/kubelet/node"
)

// commandLine is what was given on the command line.
type commandLine struct {
	set               *flag.FlagSet
	flags             Flags
	config, configDir string
	// The others are values of fields of the configuration file.
	endpoint, manifests, url  string
	header                    headerFlag
	readOnlyPort, healthzPort int
	registerNode              bool
	taints                    []v1.Taint
	providerID                string
	// twins put flags of fields over the file's values.
	twins []func(*kubeletv1beta1.KubeletConfiguration)
}

func parse(args []string, out io.Writer) (*commandLine, error) {
	fs := flag.NewFlagSet("kubelet", flag.ContinueOnError)
	l := &commandLine{set: fs, flags: Default().Flags, header: headerFlag{}}
	fs.SetOutput(out)
	fs.StringVar(&l.config, "config", "", "configuration file, kubelet.config.k8s.io/v1beta1 KubeletConfiguration")
	fs.StringVar(&l.configDir, "config-dir", "", "folder of files NAME.conf that are put over --config, in the order of their paths")
	fs.StringVar(&l.endpoint, "container-runtime-endpoint", "", "CRI socket, or \"embedded\" for containers as host processes (default unix:///run/containerd/containerd.sock)")
	fs.StringVar(&l.manifests, "pod-manifest-path", "", "folder, or file, with the manifests of static pods")
	fs.StringVar(&l.url, "manifest-url", "", "URL of static pods: a Pod or a PodList")
	fs.Var(l.header, "manifest-url-header", "headers for --manifest-url, as name:value,name:value; may be given several times")
	fs.IntVar(&l.readOnlyPort, "read-only-port", 0, "port that serves /pods and /statusz/pods without authentication (0: none)")
	fs.IntVar(&l.healthzPort, "healthz-port", 10248, "port of /healthz on localhost (0: none)")
	f := &l.flags
	fs.StringVar(&f.RootDir, "root-dir", "", "folder for the kubelet's files (default /var/lib/kubelet; with the embedded runtime, the user's state folder)")
	fs.StringVar(&f.LockFile, "lock-file", "", "file that is locked while the kubelet runs; it waits for whoever has it")
	fs.BoolVar(&f.ExitOnLockContention, "exit-on-lock-contention", false, "end when somebody else wants --lock-file")
	fs.StringVar(&f.NodeName, "hostname-override", "", "node name (default: the host's name)")
	fs.StringVar(&f.ObjectsDir, "objects-dir", "", "folder with the ConfigMaps, Secrets, tokens and trust bundles that static pods refer to: configmaps/NAMESPACE/NAME.yaml, secrets/NAMESPACE/NAME.yaml, tokens/NAMESPACE/NAME.yaml, trustbundles/NAME.yaml")
	l.nodeFlags(fs)
	l.addTwins(fs, serverTwins)
	l.addTwins(fs, gateTwins)
	fs.BoolVar(&f.AdaptiveRelist, "adaptive-relist", false, "list the pods of a runtime without events every 100 ms after activity, every 5 s at rest, instead of every second")
	fs.StringVar(&f.CredentialProviderConfig, "image-credential-provider-config", "", "file, or folder of files, kubelet.config.k8s.io CredentialProviderConfig: plugins that know credentials for registries")
	fs.StringVar(&f.CredentialProviderBinDir, "image-credential-provider-bin-dir", "", "folder of the programs that --image-credential-provider-config names")
	fs.IntVar(&f.MaxDeadContainers, "maximum-dead-containers", f.MaxDeadContainers, "how many dead containers are kept in all, beside the last one of each (negative: no limit)")
	fs.IntVar(&f.MaxDeadPerContainer, "maximum-dead-containers-per-container", f.MaxDeadPerContainer, "how many dead instances of each container are kept (negative: no limit)")
	fs.DurationVar(&f.MinContainerTTL, "minimum-container-ttl-duration", 0, "dead containers younger than this are kept, whatever their number")
	fs.IntVar(&f.Verbosity, "v", 0, "log verbosity; 4 and more is debug output")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q: only flags are taken", fs.Arg(0))
	}
	return l, nil
}

// override puts the flags that were given over the file's values.
func (l *commandLine) override(k *kubeletv1beta1.KubeletConfiguration) {
	for _, put := range l.twins {
		put(k)
	}
	l.set.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "container-runtime-endpoint":
			k.ContainerRuntimeEndpoint = l.endpoint
		case "pod-manifest-path":
			k.StaticPodPath = l.manifests
		case "manifest-url":
			k.StaticPodURL = l.url
		case "manifest-url-header":
			k.StaticPodURLHeader = l.header
		case "read-only-port":
			k.ReadOnlyPort = int32(l.readOnlyPort)
		case "healthz-port":
			port := int32(l.healthzPort)
			k.HealthzPort = &port
		case "register-node":
			k.RegisterNode = &l.registerNode
		case "register-with-taints":
			k.RegisterWithTaints = l.taints
		case "provider-id":
			k.ProviderID = l.providerID
		}
	})
}

// nodeFlags are those that concern the API server.
func (l *commandLine) nodeFlags(fs *flag.FlagSet) {
	f := &l.flags
	fs.StringVar(&f.Kubeconfig, "kubeconfig", "", "file that says how to reach the API server; without it the kubelet stands alone and runs static pods only")
	fs.StringVar(&f.BootstrapKubeconfig, "bootstrap-kubeconfig", "", "file that says how to ask for a client certificate, with which --kubeconfig is made if it is not there")
	fs.StringVar(&f.CertDir, "cert-dir", "", "folder of the certificates that the kubelet makes or is given (default: pki below --root-dir)")
	fs.Func("node-ip", "address of the node, or two of different families as IPV4,IPV6; 0.0.0.0 or :: only says which family is preferred (default: found)", func(text string) (err error) {
		f.NodeIP, err = node.ParseNodeIPs(text)
		return err
	})
	fs.Func("node-labels", "labels of the Node at its registration, as key=value,key=value", func(text string) (err error) {
		f.NodeLabels, err = node.ParseLabels(text)
		return err
	})
	fs.Func("register-with-taints", "taints of the Node at its registration, as key=value:effect,key:effect", func(text string) (err error) {
		l.taints, err = node.ParseTaints(text)
		return err
	})
	fs.BoolVar(&l.registerNode, "register-node", true, "make the Node; otherwise somebody else has to")
	fs.StringVar(&l.providerID, "provider-id", "", "what a cloud provider calls this machine")
	fs.Func("cloud-provider", "\"external\": a cloud provider completes the Node before pods come to it", func(text string) (err error) {
		f.ExternalCloud, err = node.ParseCloudProvider(text)
		return err
	})
}

// headerFlag is a flag of pairs "name:value,name:value" that may be given several
// times.
type headerFlag map[string][]string

// String shows the names only: values are often secrets.
func (h headerFlag) String() string {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name+":...")
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// Set adds pairs.
func (h headerFlag) Set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return errors.New("each pair must be name:value")
		}
		h[name] = append(h[name], strings.TrimSpace(value))
	}
	return nil
}
