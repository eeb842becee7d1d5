// Golden records what the upstream kubelet asks a container runtime for:
//
//	go run ./examples/tools/golden
//
// It builds the upstream kubelet (examples/tools/controlplane, some minutes the first
// time), runs it on the manifests in cri/pods/testdata/golden against a runtime in
// memory, and writes down the RunPodSandbox and CreateContainer requests of each
// pod. The test of package cri/pods compares its own requests with them. Record
// again when a manifest is added or changed, and for a new version of the kubelet
// (examples/tools/controlplane/go.mod).
//
// It needs root, Linux and a machine with cgroup v1, and changes nothing that
// stays: the kubelet runs in mount, network and host name namespaces of its own, in
// which memory size, huge pages, addresses and files are those of
// environment.json, below cgroups that are removed in the end; the kernel settings
// that the kubelet changes are put back.
//
// # Sets
//
// Records come in four sets, each in a folder of its own:
//
//   - standalone, in the folder itself: the manifests of pods/ are static pods, and
//     the kubelet has no API server.
//   - cgroup2: those of these pods whose subject is resources, again. The kubelet
//     sees an empty cgroup v2 hierarchy, in which it cannot make cgroups for pods:
//     the requests name no cgroup, and pod-level resources, which it would need one
//     for, are left out.
//   - options: some of these pods, again, on a kubelet with seccompDefault, a period
//     of CPU quotas of 20 ms, no cluster DNS and no resolv.conf.
//   - cluster: the manifests of cluster/pods are bound to the node in an API that
//     also has cluster/objects.yaml: config maps, secrets, services, runtime
//     classes. The API is a small one of this program.
//
// None has: persistent volumes and their block devices, resource claims and device
// plugins, resizes, exclusive CPUs, swap of containers, SELinux relabelling.
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

	"github.com/podwright/podwright/internal/testkit/golden"
)

// options are the flags.
type options struct {
	dir, kubelet, set, only, log string
}

// standalone is the set in the folder itself.
const standalone = "standalone"

// folder is where the records of the set are.
func (o options) folder() string {
	if o.set == standalone {
		return o.dir
	}
	return filepath.Join(o.dir, o.set)
}

// manifests is where the manifests of the set are.
func (o options) manifests() string {
	if o.set == golden.Cluster {
		return filepath.Join(o.dir, o.set, "pods")
	}
	return filepath.Join(o.dir, "pods")
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "cri/pods/testdata/golden", "folder with environment.json and pods")
	flag.StringVar(&o.kubelet, "kubelet", "", "an upstream kubelet that is already built")
	flag.StringVar(&o.only, "only", "", "record only these pods, separated by commas")
	flag.StringVar(&o.log, "log", "", "keep the kubelet's log in this file")
	flag.StringVar(&o.set, "set", "", "record only this set: standalone, cgroup2, options or cluster")
	inside := flag.Bool("inside", false, "set by golden itself: the namespaces are made")
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

// outside builds what is missing, and starts this program again in namespaces of
// its own.
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
	defer removeCgroups(cgroups)
	if err != nil {
		return err
	}
	return again(ctx, o, cgroup)
}

// build returns the path of the upstream kubelet, which stays in the cache of
// examples/tools/controlplane.
func build(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "run", "-C", "examples/tools/controlplane", ".", "-build", "kubelet")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// again runs this program once more, inside of new namespaces that end with it.
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
