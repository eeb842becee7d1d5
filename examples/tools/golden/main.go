// Golden records the requests of the upstream kubelet to a container runtime:
//
//	go run ./examples/tools/golden
//
// It builds the upstream kubelet (examples/tools/controlplane, some minutes the first time) and
// runs it on the manifests in cri/pods/testdata/golden against a runtime in memory. It writes the
// RunPodSandbox and CreateContainer requests of each pod to files. The test of package cri/pods
// compares its own requests with them. Record again after a change of a manifest, and for a new
// version of the kubelet (examples/tools/controlplane/go.mod).
//
// It needs root, Linux and cgroup v1. The kubelet runs in new mount, network and host name
// namespaces, whose memory size, huge pages, addresses and files are set from environment.json.
// Its cgroups are removed at the end, and the kernel settings that it changes are restored.
//
// # Sets
//
// Records come in four sets, each in its own folder:
//
//   - standalone, in the folder itself: the manifests of pods/ are static pods, and
//     the kubelet has no API server.
//   - cgroup2: the pods of this set that concern resources. The kubelet has an empty
//     cgroup v2 hierarchy, in which it cannot create cgroups for pods. The requests
//     therefore name no cgroup, and pods with pod-level resources are omitted.
//   - options: some pods of this set, on a kubelet with seccompDefault, a CPU quota
//     period of 20 ms, no cluster DNS and no resolv.conf.
//   - cluster: the manifests of cluster/pods are bound to the node in an API that
//     also has cluster/objects.yaml: config maps, secrets, services, runtime
//     classes. This program serves the API.
//
// No set covers persistent volumes and their block devices, resource claims, device plugins,
// resizes, exclusive CPUs, swap of containers, or SELinux relabelling.
//
// # Flags
//
//	-dir DIR       the folder with environment.json (cri/pods/testdata/golden)
//	-kubelet FILE  an upstream kubelet that is already built
//	-set NAME      record only this set
//	-only NAMES    only these pods, separated by commas
//	-log FILE      keep the kubelet's log there
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/podwright/podwright/examples/tools/internal/cgroupfs"
	"github.com/podwright/podwright/internal/testkit/golden"
)

type options struct {
	dir, kubelet, set, only, log string
}

// standalone is the name of the set in the folder itself.
const standalone = "standalone"

func (o options) folder() string {
	if o.set == standalone {
		return o.dir
	}
	return filepath.Join(o.dir, o.set)
}

func (o options) manifests() string {
	if o.set == golden.Cluster {
		return filepath.Join(o.dir, o.set, "pods")
	}
	return filepath.Join(o.dir, "pods")
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "cri/pods/testdata/golden", "folder with environment.json and pods")
	flag.StringVar(&o.kubelet, "kubelet", "", "path of an upstream kubelet; default: build one")
	flag.StringVar(&o.only, "only", "", "record only these pods, separated by commas")
	flag.StringVar(&o.log, "log", "", "keep the kubelet's log in this file")
	flag.StringVar(&o.set, "set", "", "record only this set: standalone, cgroup2, options or cluster")
	inside := flag.Bool("inside", false, "for internal use: the namespaces exist")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := outside
	if *inside {
		run = record
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "golden:", err)
		stop()
		os.Exit(1)
	}
}

// outside builds the kubelet if necessary, and starts this program again in new namespaces.
func outside(ctx context.Context, o options) error {
	if os.Geteuid() != 0 {
		return errors.New("only root can run the upstream kubelet")
	}
	dir, err := os.MkdirTemp("", "golden-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.kubelet == "" {
		if o.kubelet, err = build(ctx); err != nil {
			return fmt.Errorf("build the upstream kubelet: %w", err)
		}
	}
	if o.log == "" {
		o.log = filepath.Join(dir, "kubelet.log")
	}
	defer keepSettings()()
	remove, err := makeMountPoints()
	defer remove()
	if err != nil {
		return err
	}
	sets := []string{standalone, golden.Cgroup2, golden.Options, golden.Cluster}
	if o.set != "" {
		sets = []string{o.set}
	}
	for _, o.set = range sets {
		fmt.Print(o.set, ": ")
		if err := recordSet(ctx, o, filepath.Base(dir)); err != nil {
			return fmt.Errorf("%s: %w", o.set, err)
		}
	}
	return nil
}

func recordSet(ctx context.Context, o options, cgroup string) error {
	cgroups, err := makeCgroups(cgroup)
	defer cgroupfs.Remove(cgroups)
	if err != nil {
		return err
	}
	return again(ctx, o, cgroup)
}

// build builds the upstream kubelet and returns its path in the cache of
// examples/tools/controlplane.
func build(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "run", "-C", "examples/tools/controlplane", ".", "-build", "kubelet")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// again runs this program in new namespaces, which end with it.
func again(ctx context.Context, o options, cgroup string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "-inside", "-dir", o.dir, "-kubelet", o.kubelet, "-set", o.set, "-only", o.only, "-log", o.log)
	cmd.Env = append(os.Environ(), cgroupVariable+"="+cgroup)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:    syscall.SIGKILL,
		Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS,
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}
