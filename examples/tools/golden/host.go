package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/testkit/golden"
)

// Default paths of the kubelet.
const (
	rootDir       = "/var/lib/kubelet"
	logDir        = "/var/log/pods"
	containerLogs = "/var/log/containers"
	scratch       = rootDir + "/golden"
)

const (
	cgroupMount    = "/sys/fs/cgroup"
	cgroupVariable = "GOLDEN_CGROUP"
)

// makeCgroups creates a cgroup for the kubelet in each hierarchy, and returns their folders. On an
// error it returns the folders created so far.
func makeCgroups(name string) ([]string, error) {
	hierarchies, err := filepath.Glob(cgroupMount + "/*/cgroup.procs")
	if err != nil || len(hierarchies) == 0 {
		return nil, fmt.Errorf("no cgroup v1 hierarchies below %s: %w", cgroupMount, errors.ErrUnsupported)
	}
	var made []string
	for _, procs := range hierarchies {
		parent := filepath.Dir(procs)
		path := filepath.Join(parent, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			return made, err
		}
		made = append(made, path)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new cgroup
			if text, err := os.ReadFile(filepath.Join(parent, file)); err == nil {
				if err := os.WriteFile(filepath.Join(path, file), text, 0o644); err != nil {
					return made, err
				}
			}
		}
	}
	return made, nil
}

// keepSettings reads the kernel settings that the kubelet changes and that no namespace isolates.
// The returned function restores them.
func keepSettings() func() {
	kept := map[string][]byte{}
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"} {
		path := filepath.Join("/proc/sys", name)
		if text, err := os.ReadFile(path); err == nil {
			kept[path] = text
		}
	}
	return func() {
		for path, text := range kept {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				fmt.Fprintln(os.Stderr, "golden: restore", path, err)
			}
		}
	}
}

// coveredDirs are the folders that setUpNamespaces covers with empty ones. Manifests create
// hostPath volumes in /srv.
var coveredDirs = []string{rootDir, logDir, containerLogs, "/srv"}

// makeMountPoints creates the covered folders that the machine lacks. The returned function
// removes them.
func makeMountPoints() (func(), error) {
	var made []string
	remove := func() {
		for _, dir := range slices.Backward(made) {
			_ = os.Remove(dir)
		}
	}
	for _, dir := range coveredDirs {
		err := os.Mkdir(dir, 0o755)
		switch {
		case err == nil:
			made = append(made, dir)
		case !errors.Is(err, fs.ErrExist):
			return remove, err
		}
	}
	return remove, nil
}

// setUpNamespaces changes the mount, network and host name namespaces of this process so that they
// match the environment.
func setUpNamespaces(e golden.Environment) error {
	for _, dir := range coveredDirs {
		if err := emptyDir(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(e.NodeName)); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	if err := loopback(e.NodeIP); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := hugePages(e.HugePages); err != nil {
		return err
	}
	if err := appArmor(); err != nil {
		return err
	}
	if err := memory(e.MemoryBytes); err != nil {
		return err
	}
	return replaceFile("/etc/hosts", e.Hosts)
}

// cgroup2 makes the machine appear to have cgroup v2 only. The hierarchy has no controllers, so
// limits are impossible.
func cgroup2() error {
	if err := unix.Mount("cgroup2", cgroupMount, "cgroup2", 0, ""); err != nil {
		return fmt.Errorf("cgroup v2: %w", err)
	}
	return nil
}

// emptyDir mounts an empty file system over a folder.
func emptyDir(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount on %s: %w", dir, err)
	}
	return nil
}

// replaceFile mounts a file with this text over path.
func replaceFile(path, text string) error {
	file := filepath.Join(scratch, strings.ReplaceAll(path, "/", "_"))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	if err := unix.Mount(file, path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount on %s: %w", path, err)
	}
	return nil
}

// memory makes the machine appear to have this much memory.
func memory(bytes int64) error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "MemTotal:"), strings.HasPrefix(line, "MemAvailable:"), strings.HasPrefix(line, "MemFree:"):
			name, _, _ := strings.Cut(line, ":")
			lines[i] = fmt.Sprintf("%s: %d kB", name, bytes>>10)
		}
	}
	return replaceFile("/proc/meminfo", strings.Join(lines, "\n"))
}

// hugePages makes the machine appear to have these huge pages, by size in KiB.
func hugePages(counts map[string]int) error {
	const dir = "/sys/kernel/mm/hugepages"
	if err := emptyDir(dir); err != nil {
		return err
	}
	for size, count := range counts {
		of := filepath.Join(dir, "hugepages-"+size+"kB")
		if err := os.Mkdir(of, 0o755); err != nil {
			return err
		}
		for _, file := range []string{"nr_hugepages", "free_hugepages"} {
			if err := os.WriteFile(filepath.Join(of, file), []byte(strconv.Itoa(count)+"\n"), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// appArmor makes the kernel appear to have AppArmor. The kubelet only checks for it.
func appArmor() error {
	for dir, below := range map[string]string{"/sys/module": "apparmor/parameters", "/sys/kernel/security": "apparmor"} {
		if err := emptyDir(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, below), 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile("/sys/module/apparmor/parameters/enabled", []byte("Y\n"), 0o644)
}

// loopback adds an address to the loopback interface and brings it up.
func loopback(ip string) error {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	for _, step := range []struct {
		name  string
		call  uint
		value func(*unix.Ifreq) error
	}{
		{"lo", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
		// A second address. The interface keeps 127.0.0.1.
		{"lo:1", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(addr.AsSlice()) }},
	} {
		request, err := unix.NewIfreq(step.name)
		if err != nil {
			return err
		}
		if err := step.value(request); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(socket, step.call, request); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}
