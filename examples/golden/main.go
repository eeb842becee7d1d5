// Golden records what the upstream kubelet asks a container runtime for:
//
//	go run ./examples/golden
//	go run ./examples/golden -cgroup2
//
// It builds the upstream kubelet (examples/controlplane, some minutes the first
// time), runs it on the manifests of cri/pods/testdata/golden/pods against a
// runtime in memory, and writes the RunPodSandbox and CreateContainer requests
// of each pod beside that folder. The test of package cri/pods compares its own
// requests with them. Record again when a manifest is added or changed, and
// for a new version of the kubelet (examples/controlplane/go.mod).
//
// It needs root, Linux and a machine with cgroup v1, and changes nothing that stays: the kubelet
// runs in mount, network and host name namespaces of its own, in which memory
// size, huge pages, addresses and files are those of environment.json, below
// cgroups that are removed in the end; the kernel settings that the
// kubelet changes are put back.
//
// Pods are static, and the kubelet has no API server. So these have no record:
// config maps, secrets, service accounts and their tokens, services, persistent
// volumes, block devices, resource claims, runtime classes, ephemeral containers
// and resizes. What the kernel accounts for (swap) is the machine's; recorded.json
// says so. With -cgroup2 the kubelet sees an empty cgroup v2 hierarchy, in which
// it cannot make cgroups for pods: the requests name no cgroup, and pod-level
// resources, which it would need one for, are left out.
//
// # Flags
//
//	-dir DIR       the folder with environment.json and pods (cri/pods/testdata/golden)
//	-kubelet FILE  an upstream kubelet that is already built
//	-cgroup2       record into DIR/cgroup2 what depends on cgroups, as on cgroup v2
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
	"syscall"
)

// options are the flags.
type options struct {
	dir, kubelet, only, log string
	cgroup2                 bool
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "cri/pods/testdata/golden", "folder with environment.json and pods")
	flag.StringVar(&o.kubelet, "kubelet", "", "an upstream kubelet that is already built")
	flag.StringVar(&o.only, "only", "", "record only these pods, separated by commas")
	flag.StringVar(&o.log, "log", "", "keep the kubelet's log in this file")
	flag.BoolVar(&o.cgroup2, "cgroup2", false, "record what depends on cgroups as on cgroup v2")
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
		o.kubelet = filepath.Join(dir, "kubelet")
		fmt.Println("building the upstream kubelet")
		if err := build(ctx, o.kubelet); err != nil {
			return fmt.Errorf("build the upstream kubelet: %w", err)
		}
	}
	if o.log == "" {
		o.log = filepath.Join(dir, "kubelet.log")
	}
	cgroups, err := makeCgroups(filepath.Base(dir))
	defer removeCgroups(cgroups)
	if err != nil {
		return err
	}
	defer keepSettings()()
	return again(ctx, o, filepath.Base(dir))
}

func build(ctx context.Context, into string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", into, "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion="+kubeletVersion, "./kubelet")
	cmd.Dir = "examples/controlplane"
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// again runs this program once more, inside of new namespaces that end with it.
func again(ctx context.Context, o options, cgroup string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "-inside", "-dir", o.dir, "-kubelet", o.kubelet, "-only", o.only, "-log", o.log, fmt.Sprintf("-cgroup2=%v", o.cgroup2))
	cmd.Env = append(os.Environ(), cgroupVariable+"="+cgroup)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:    syscall.SIGKILL,
		Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS,
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}
