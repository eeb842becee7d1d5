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

// containerIDs are the sandboxes and containers that the runtimes below dir
// know or knew: the names of folders that outlive a killed runtime.
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

// cgroupDirs lists every cgroup below root, parents first. It reads cgroup v1
// hierarchies, cgroup v2 and a mix of them alike: all are folders.
func cgroupDirs(root string) []string {
	var dirs []string
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root {
			dirs = append(dirs, path)
		}
		return nil // a cgroup that vanished meanwhile is not of interest
	})
	return dirs
}

// ownCgroups picks those that are named after a container, or lie in one.
func ownCgroups(dirs, ids []string) []string {
	var out []string
	for _, dir := range dirs {
		if slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(dir, id) }) {
			out = append(out, dir)
		}
	}
	return out
}

// podLevel are the parents of containers' cgroups that are a pod's own: all
// but those that every pod is below.
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

// emptiedParents picks what is below a parent of pods that appeared during the
// run, parent included: children first. A parent that was there before is the
// business of the machine's own kubelet or runtime.
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

// podParent is the topmost part of dir that containerd (k8s.io) or a kubelet
// (kubepods, kubepods.slice, and podwright-NODE above them in tests) puts pods into;
// empty if there is none.
func podParent(dir string) string {
	for at, part := range splitAt(dir) {
		if part == "k8s.io" || strings.HasPrefix(part, "kubepods") || strings.HasPrefix(part, "podwright-") {
			return dir[:at+len(part)]
		}
	}
	return ""
}

// splitAt yields the parts of a path and where each begins.
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

// thaw lets the processes of a frozen cgroup v1 die.
func thaw(dirs []string) {
	for _, dir := range dirs {
		path := filepath.Join(dir, "freezer.state")
		if _, err := os.Stat(path); err == nil {
			_ = os.WriteFile(path, []byte("THAWED"), 0)
		}
	}
}

// removeCgroups removes children before parents.
func removeCgroups(dirs []string) error {
	var errs []error
	for _, dir := range slices.Backward(dirs) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
