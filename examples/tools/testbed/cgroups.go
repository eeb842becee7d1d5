package main

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// containerIDs returns the ids of current and former sandboxes and containers of the runtimes
// below dir. It reads the names of folders that stay after a runtime was killed.
func containerIDs(dir string) []string {
	var ids []string
	for _, pattern := range []string{
		"*/root/io.containerd.grpc.v1.cri/*/*",
		"*/state/io.containerd.grpc.v1.cri/*/*",
		"*/root/io.containerd.runtime.v2.task/*/*",
		"*/state/io.containerd.runtime.v2.task/*/*",
	} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			continue // only a bad pattern is an error
		}
		for _, p := range paths {
			if id := filepath.Base(p); isContainerID(id) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func isContainerID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// cgroupDirs returns every cgroup below root, parents first. It works with cgroup v1, v2 and a
// mix, because all are folders.
func cgroupDirs(root string) []string {
	var dirs []string
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root {
			dirs = append(dirs, path)
		}
		return nil // cgroups may vanish meanwhile
	})
	return dirs
}

// ownCgroups returns the cgroups whose path contains the id of a container.
func ownCgroups(dirs, ids []string) []string {
	var out []string
	for _, dir := range dirs {
		if slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(dir, id) }) {
			out = append(out, dir)
		}
	}
	return out
}

// podLevel returns the parents of the containers' cgroups that belong to a single pod, without the
// shared parents of all pods.
func podLevel(own []string) []string {
	shared := []string{"k8s.io", "kubepods", "kubepods.slice", "burstable", "besteffort",
		"kubepods-burstable.slice", "kubepods-besteffort.slice"}
	var out []string
	for _, dir := range own {
		parent := filepath.Dir(dir)
		if podParent(parent) != "" && !slices.Contains(shared, filepath.Base(parent)) {
			out = union(out, []string{parent})
		}
	}
	return out
}

// emptiedParents returns the shared parents of pods that appeared during the run, with all cgroups
// below them, children first. Parents that existed before belong to the machine's own kubelet or
// runtime.
func emptiedParents(dirs, before []string) []string {
	var out []string
	for _, dir := range dirs {
		if top := podParent(dir); top != "" && !slices.Contains(before, top) {
			out = append(out, dir)
		}
	}
	slices.Reverse(out)
	return out
}

// podParent returns the topmost part of dir in which containerd (k8s.io) or a kubelet (kubepods,
// kubepods.slice, and podwright-NODE above them in tests) creates pods, or "".
func podParent(dir string) string {
	for at, part := range splitAt(dir) {
		if part == "k8s.io" || strings.HasPrefix(part, "kubepods") || strings.HasPrefix(part, "podwright-") {
			return dir[:at+len(part)]
		}
	}
	return ""
}

func splitAt(path string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		at := 0
		for part := range strings.SplitSeq(path, "/") {
			if !yield(at, part) {
				return
			}
			at += len(part) + 1
		}
	}
}

// thaw thaws cgroups of v1, so that their frozen processes can die.
func thaw(dirs []string) {
	for _, dir := range dirs {
		path := filepath.Join(dir, "freezer.state")
		if _, err := os.Stat(path); err == nil {
			_ = os.WriteFile(path, []byte("THAWED"), 0)
		}
	}
}

// removeCgroups removes cgroups, children before parents.
func removeCgroups(dirs []string) error {
	var errs []error
	for _, dir := range slices.Backward(dirs) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
