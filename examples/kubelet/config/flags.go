package config

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/examples/kubelet/node"
)

type commandLine struct {
	flags             Flags
	config, configDir string
	// fields are the fields of the configuration file that flags have set, in the file's format.
	fields map[string]any
	faults []error
}

// parse parses the command line. It collects all invalid values; an unknown flag ends it.
func parse(args []string, out io.Writer) (*commandLine, error) {
	l := &commandLine{flags: Default().Flags, fields: map[string]any{}}
	all := l.options()
	fs := flag.NewFlagSet("kubelet", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	for _, o := range all {
		fs.Var(l.collecting(o), o.name, o.usage)
	}
	version := fs.Bool("version", false, "")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, errors.Join(err, writeUsage(out, all))
	case err != nil:
		return nil, errors.Join(append(l.faults, fmt.Errorf("%w (--help names all flags)", err))...)
	case *version:
		_, err := fmt.Fprintln(out, "Kubernetes", node.Version)
		return nil, errors.Join(flag.ErrHelp, err)
	case fs.NArg() > 0:
		return nil, errors.Join(append(l.faults, fmt.Errorf("unknown argument %q: only flags are taken", fs.Arg(0)))...)
	}
	return l, errors.Join(l.faults...)
}

// read decodes the files and flags into k. It returns their fields.
func (l *commandLine) read(k *kubeletv1beta1.KubeletConfiguration) (map[string]any, error) {
	fields, err := readFiles(l.config, l.configDir)
	if err != nil {
		return nil, err
	}
	if l.fields["staticPodURLHeader"] != nil { // flags replace all headers
		delete(fields, "staticPodURLHeader")
	}
	merge(fields, l.fields)
	decoded, err := decode(fields)
	if err != nil {
		return nil, err
	}
	*k = *decoded
	return fields, nil
}

// option is a flag. It implements flag.Value.
type option struct {
	group, name, usage string
	// set sets the value from a text. text returns the current value.
	set  func(text string) error
	text func() string
	// isSwitch allows the flag without a value, which means true.
	isSwitch bool
	// refused is the reason why the flag is not supported. Such a flag accepts only values without
	// effect.
	refused string
}

func (o option) Set(text string) error { return o.set(text) }
func (o option) IsBoolFlag() bool      { return o.isSwitch }
func (o option) String() string {
	if o.text == nil { // package flag calls this on the zero value
		return ""
	}
	return o.text()
}

// collecting makes an option collect its errors instead of returning them, so that all are reported
// at once.
func (l *commandLine) collecting(o option) option {
	set := o.set
	o.set = func(text string) error {
		if err := set(text); err != nil {
			if name := "--" + o.name; !strings.HasPrefix(err.Error(), name) {
				err = fmt.Errorf("%s: %w", name, err)
			}
			l.faults = append(l.faults, err)
		}
		return nil
	}
	return o
}

// options returns all flags, including unsupported ones.
func (l *commandLine) options() []option {
	return slices.Concat(l.flags.options(&l.config, &l.configDir), l.twins(), refusals())
}

const (
	groupFiles   = "Configuration files and folders"
	groupNode    = "The node and its API server"
	groupPods    = "Pods and where they come from"
	groupRuntime = "The runtime, images and containers"
	groupServer  = "The kubelet API and who may use it"
	groupLimits  = "Resources of the node"
	groupProcess = "The process and its log"
)

// options returns the flags without a field in the configuration file.
func (f *Flags) options(file, folder *string) []option {
	return []option{
		textOption(groupFiles, "config", "configuration file, kubelet.config.k8s.io/v1beta1 KubeletConfiguration", file),
		textOption(groupFiles, "config-dir", "folder of files NAME.conf that are put over --config, in the order of their paths", folder),
		textOption(groupFiles, "root-dir", "folder for the kubelet's files (default /var/lib/kubelet; with the embedded runtime, the user's state folder)", &f.RootDir),
		textOption(groupFiles, "cert-dir", "folder of the certificates that the kubelet makes or is given by the API server (default: pki below --root-dir)", &f.CertDir),
		textOption(groupFiles, "objects-dir", "folder with the ConfigMaps, Secrets, tokens and trust bundles that static pods refer to: configmaps/NAMESPACE/NAME.yaml, secrets/NAMESPACE/NAME.yaml, tokens/NAMESPACE/NAME.yaml, trustbundles/NAME.yaml", &f.ObjectsDir),
		textOption(groupFiles, "lock-file", "file that is locked while the kubelet runs; it waits for whoever has it", &f.LockFile),
		switchOption(groupFiles, "exit-on-lock-contention", "end when somebody else wants --lock-file", &f.ExitOnLockContention),

		textOption(groupNode, "kubeconfig", "file that says how to reach the API server; without it the kubelet stands alone and runs static pods only", &f.Kubeconfig),
		textOption(groupNode, "bootstrap-kubeconfig", "file that says how to ask for a client certificate, with which --kubeconfig is made if it is not there", &f.BootstrapKubeconfig),
		textOption(groupNode, "hostname-override", "node name (default: the host's name)", &f.NodeName),
		{group: groupNode, name: "node-ip", usage: "address of the node, or two of different families as IPV4,IPV6; 0.0.0.0 or :: only says which family is preferred (default: found)",
			set:  func(text string) (err error) { f.NodeIP, err = node.ParseNodeIPs(text); return err },
			text: func() string { return joined(f.NodeIP, netip.Addr.String) }},
		{group: groupNode, name: "node-labels", usage: "labels of the Node at its registration, as key=value,key=value",
			set: func(text string) (err error) { f.NodeLabels, err = node.ParseLabels(text); return err },
			text: func() string {
				return joined(slices.Sorted(maps.Keys(f.NodeLabels)), func(key string) string { return key + "=" + f.NodeLabels[key] })
			}},
		{group: groupNode, name: "cloud-provider", usage: "\"external\": a cloud provider completes the Node before pods come to it",
			set:  func(text string) (err error) { f.ExternalCloud, err = node.ParseCloudProvider(text); return err },
			text: func() string { return map[bool]string{true: "external"}[f.ExternalCloud] }},

		switchOption(groupRuntime, "adaptive-relist", "list the pods of a runtime without events every 100 ms after activity, every 5 s at rest, instead of every second", &f.AdaptiveRelist),
		textOption(groupRuntime, "image-credential-provider-config", "file, or folder of files, kubelet.config.k8s.io CredentialProviderConfig: plugins that know credentials for registries", &f.CredentialProviderConfig),
		textOption(groupRuntime, "image-credential-provider-bin-dir", "folder of the programs that --image-credential-provider-config names", &f.CredentialProviderBinDir),
		valueOption(groupRuntime, "maximum-dead-containers", "how many dead containers are kept in all, beside the last one of each (negative: no limit)", &f.MaxDeadContainers),
		valueOption(groupRuntime, "maximum-dead-containers-per-container", "how many dead instances of each container are kept (negative: no limit)", &f.MaxDeadPerContainer),
		textOption(groupRuntime, "runtime-cgroups", "cgroup that the runtime is in, whose use /stats/summary tells", &f.RuntimeCgroups),
		valueOption(groupRuntime, "minimum-container-ttl-duration", "dead containers younger than this are kept, whatever their number", &f.MinContainerTTL),
	}
}

// valueOption returns a flag of a type that package flag can parse.
func valueOption[T int | bool | time.Duration](group, name, usage string, to *T) option {
	return option{group: group, name: name, usage: usage, text: func() string { return fmt.Sprint(*to) }, set: func(text string) error {
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		switch to := any(to).(type) {
		case *int:
			fs.IntVar(to, "x", *to, "")
		case *bool:
			fs.BoolVar(to, "x", *to, "")
		case *time.Duration:
			fs.DurationVar(to, "x", *to, "")
		}
		return fs.Set("x", text)
	}}
}

func textOption(group, name, usage string, to *string) option {
	return option{group: group, name: name, usage: usage, set: func(text string) error { *to = text; return nil }, text: func() string { return *to }}
}

func switchOption(group, name, usage string, to *bool) option {
	o := valueOption(group, name, usage, to)
	o.isSwitch = true
	return o
}

// Values returns the flags with their effective values. Header values are masked, because they may
// be secret.
func (c *Config) Values() map[string]string {
	var file, folder string
	flags, out := c.Flags, map[string]string{}
	for _, o := range flags.options(&file, &folder) {
		out[o.name] = o.text()
	}
	out["config"], out["config-dir"] = c.files[0], c.files[1]
	for _, t := range twins {
		out[t.name] = t.text(&c.Kubelet)
	}
	if address, err := url.Parse(c.Kubelet.StaticPodURL); err == nil {
		out["manifest-url"] = address.Redacted()
	}
	return out
}

func joined[T any](values []T, text func(T) string) string {
	out := make([]string, len(values))
	for i, value := range values {
		out[i] = text(value)
	}
	return strings.Join(out, ",")
}

// writeUsage lists the flags by group, unsupported ones last.
func writeUsage(w io.Writer, all []option) error {
	var b strings.Builder
	b.WriteString("Usage: kubelet [flags]\n\nA flag that sets a field of the configuration file wins over the file.\n")
	group := ""
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b option) int { return cmp.Compare(rank(a.group), rank(b.group)) })
	for _, o := range all {
		if o.group != group {
			group = o.group
			fmt.Fprintf(&b, "\n%s:\n", group)
		}
		if o.refused != "" {
			fmt.Fprintf(&b, "  --%s: %s\n", o.name, o.refused)
			continue
		}
		fmt.Fprintf(&b, "  --%s\n        %s\n", o.name, o.usage)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func rank(group string) int {
	return slices.Index([]string{groupFiles, groupNode, groupPods, groupRuntime, groupServer, groupLimits, groupProcess, groupRefused}, group)
}
