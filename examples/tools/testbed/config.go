package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"text/template"
)

// instance is the part of a containerd's configuration that differs between instances.
type instance struct {
	Key     string // "v1" or "v2", used in the environment and the control endpoint
	Version string // version reported by CRI; empty before the first start
	Bin     string
	Dir     string
	LogFile string
	Network network

	Runc, CNIBin string
	SandboxImage string
	Registry     string // host:port of the local registry
	Snapshotter  string
	RestrictOOM  bool // true without CAP_SYS_RESOURCE, which is needed to lower a score
	WithPortmap  bool
	SearchPath   string
}

func (i instance) Root() string       { return filepath.Join(i.Dir, "root") }
func (i instance) State() string      { return filepath.Join(i.Dir, "state") }
func (i instance) Socket() string     { return filepath.Join(i.Dir, "c.sock") }
func (i instance) ConfigFile() string { return filepath.Join(i.Dir, "config.toml") }
func (i instance) CNIConfDir() string { return filepath.Join(i.Dir, "cni") }
func (i instance) HostsDir() string   { return filepath.Join(i.Dir, "hosts") }

// mirrored are the registries whose images the runtimes pull from the local registry: Docker Hub,
// so that manifests with "busybox:1.36" work, and the registry of upstream's suites (nodesuite).
var mirrored = []string{"docker.io", "registry.k8s.io"}

// mirrorConfig makes the local registry a mirror of another.
func (i instance) mirrorConfig() string {
	return fmt.Sprintf("server = %[1]s\n\n[host.%[1]s]\n  capabilities = [\"pull\", \"resolve\"]\n", tomlQuote("http://"+i.Registry))
}

// Network namespaces are below the state folder, and runc's state is in it, so that a clean-up
// finds them by path.
const configV1 = `version = 2
root = {{.Root | q}}
state = {{.State | q}}
disabled_plugins = [
  "io.containerd.internal.v1.restart",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing",
]

[grpc]
  address = {{.Socket | q}}

[plugins."io.containerd.internal.v1.opt"]
  path = {{.Dir | printf "%s/opt" | q}}

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {{.SandboxImage | q}}
  restrict_oom_score_adj = {{.RestrictOOM}}
  netns_mounts_under_state_dir = true

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = {{.HostsDir | q}}

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {{.CNIBin | q}}
    conf_dir = {{.CNIConfDir | q}}

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = {{.Snapshotter | q}}
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = {{.Runc | q}}
        Root = {{.State | printf "%s/runc" | q}}

    # The node suite has a RuntimeClass with this handler.
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.test-handler]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.test-handler.options]
        BinaryName = {{.Runc | q}}
        Root = {{.State | printf "%s/runc" | q}}
`

const configV2 = `version = 3
root = {{.Root | q}}
state = {{.State | q}}
disabled_plugins = [
  "io.containerd.internal.v1.tracing",
  "io.containerd.monitor.container.v1.restart",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = {{.Socket | q}}

[plugins.'io.containerd.internal.v1.opt']
  path = {{.Dir | printf "%s/opt" | q}}

[plugins.'io.containerd.nri.v1.nri']
  disable = true

[plugins.'io.containerd.cri.v1.images']
  snapshotter = {{.Snapshotter | q}}

  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = {{.SandboxImage | q}}

  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = {{.HostsDir | q}}

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = {{.RestrictOOM}}
  netns_mounts_under_state_dir = true

  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [{{.CNIBin | q}}]
    conf_dir = {{.CNIConfDir | q}}

  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"

    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = {{.Runc | q}}
        Root = {{.State | printf "%s/runc" | q}}

    # The node suite has a RuntimeClass with this handler.
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.test-handler]
      runtime_type = "io.containerd.runc.v2"

      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.test-handler.options]
        BinaryName = {{.Runc | q}}
        Root = {{.State | printf "%s/runc" | q}}
`

func (i instance) config() (string, error) {
	text, ok := map[string]string{"v1": configV1, "v2": configV2}[i.Key]
	if !ok {
		return "", fmt.Errorf("no configuration for runtime %q", i.Key)
	}
	t, err := template.New(i.Key).Funcs(template.FuncMap{"q": tomlQuote}).Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := t.Execute(&out, i); err != nil {
		return "", err
	}
	return out.String(), nil
}

// tomlQuote writes s as a TOML basic string.
func tomlQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
