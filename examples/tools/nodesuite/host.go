package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/examples/tools/internal/cgroupfs"
)

// scratchPrefix begins the name of the temporary folder of a run.
const scratchPrefix = "nodesuite-"

// covered are the fixed paths of the suite's kubelet.
var covered = []string{"/var/lib/kubelet", "/var/log/pods", "/var/log/containers"}

// cover mounts empty folders below dir on the covered paths, in the namespace of the container
// runtime, which has to see the kubelet's mounts. The returned function undoes this.
func cover(dir string) (func(), error) {
	if err := uncoverStale(); err != nil {
		return nil, err
	}
	var undo []func()
	uncover := func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
	for _, path := range covered {
		f, err := coverPath(path, filepath.Join(dir, "root", path))
		if err != nil {
			uncover()
			return nil, fmt.Errorf("mount on %s: %w", path, err)
		}
		undo = append(undo, f)
	}
	return uncover, nil
}

func coverPath(path, source string) (func(), error) {
	made := false
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
		made = true
	}
	if err := os.MkdirAll(source, 0o755); err != nil {
		return nil, err
	}
	if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
		return nil, err
	}
	undo := func() {
		_ = unix.Unmount(path, unix.MNT_DETACH) // with all mounts below it
		if made {
			_ = os.Remove(path)
		}
	}
	// First private, so that mounts below path do not appear in source, then shared, so that they
	// reach containers.
	for _, flag := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount("", path, "", flag, ""); err != nil {
			undo()
			return nil, err
		}
	}
	return undo, nil
}

// uncoverStale undoes the mounts of a run that was killed.
func uncoverStale() error {
	for {
		info, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return err
		}
		stale := staleMounts(string(info))
		if len(stale) == 0 {
			return nil
		}
		for _, path := range stale {
			if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", path, err)
			}
		}
	}
}

// staleMounts returns the covered paths whose topmost mount is a folder of a run.
func staleMounts(mountinfo string) []string {
	top := map[string]string{}
	for line := range strings.Lines(mountinfo) {
		if fields := strings.Fields(line); len(fields) > 4 {
			top[fields[4]] = fields[3]
		}
	}
	var out []string
	for _, path := range covered {
		if strings.Contains(top[path], "/"+scratchPrefix) {
			out = append(out, path)
		}
	}
	return out
}

// removePods removes all pods of the runtime.
func removePods(ctx context.Context, endpoint string) error {
	runtime, err := cri.DialRuntime(ctx, cri.ClientConfig{Endpoint: endpoint})
	if err != nil {
		return err
	}
	defer runtime.Close()
	pods, err := runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return err
	}
	var errs []error
	for _, pod := range pods {
		errs = append(errs, runtime.StopPodSandbox(ctx, pod.Id), runtime.RemovePodSandbox(ctx, pod.Id))
	}
	return errors.Join(errs...)
}

// removeCgroups removes the cgroups that a kubelet creates for itself and for pods.
func removeCgroups() {
	for _, pattern := range []string{"/sys/fs/cgroup/kubelet*", "/sys/fs/cgroup/*/kubelet*", "/sys/fs/cgroup/kubepods*", "/sys/fs/cgroup/*/kubepods*"} {
		roots, _ := filepath.Glob(pattern)
		cgroupfs.Remove(roots)
	}
}
