package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// sweeper removes by force all that a run has left on the machine. It needs only the run's record.
// So the testbed, its watchdog and the next testbed all use it, and each can continue another's
// work.
type sweeper struct {
	cache     cache
	run       record
	exclusive bool // no other testbed is live, so shared parents can be removed
	// pods are pod cgroups that were emptied before the sweep.
	pods []string
}

// sweep cleans up and returns descriptions of the remains, or none if the machine is as it was
// before the run.
func (s sweeper) sweep(ctx context.Context) ([]string, error) {
	own := owner{id: s.run.ID, dir: s.run.Dir, ids: containerIDs(s.run.Dir)}
	sockets := shimSockets(s.run.Dir)
	var errs []error
	try := func(object string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", object, err))
		}
	}

	if alive(s.run.Command) {
		_ = syscall.Kill(-s.run.Command.PID, syscall.SIGKILL)
	}
	owned := ownCgroups(cgroupDirs(cgroupRoot), own.ids)
	s.pods = union(s.pods, podLevel(owned))
	thaw(owned)
	find := func() ([]procInfo, error) {
		// A shim that was starting a container may have created a new id.
		own.ids = union(own.ids, containerIDs(s.run.Dir))
		sockets = union(sockets, shimSockets(s.run.Dir))
		return own.find(s.run.Owner.PID, s.run.Watchdog.PID)
	}
	try("kill", endProcesses(find, []endStep{{syscall.SIGKILL, 10 * time.Second}}))
	try("unmount", unmountBelow(s.run.Dir))
	for _, n := range s.run.Networks {
		try("network", removeBridge(n.Bridge))
	}
	try("network", s.cleanNAT(ctx))
	try("network", s.removeCNICache(own.ids))
	try("cgroups", s.removeCgroups(own.ids))
	removeSockets(sockets, s.exclusive)
	if s.exclusive {
		try("kernel", restoreKernel("/proc/sys", s.run.Kernel))
	}
	try("folder", removeTree(s.run.Dir))

	left := s.left(own)
	if len(left) == 0 {
		try("record", s.cache.drop(s.run.ID))
	}
	return left, errors.Join(errs...)
}

func (s sweeper) networkNames() []string {
	var names []string
	for _, n := range s.run.Networks {
		names = append(names, n.Name)
	}
	return names
}

func (s sweeper) cleanNAT(ctx context.Context) error {
	var before []string
	if s.exclusive {
		before = append([]string{}, s.run.Chains...) // must not be nil
	}
	return cleanNAT(ctx, s.networkNames(), before)
}

func (s sweeper) removeCgroups(ids []string) error {
	dirs := cgroupDirs(cgroupRoot)
	err := removeCgroups(ownCgroups(dirs, ids))
	parents := s.pods
	if s.exclusive {
		parents = append(parents, emptiedParents(dirs, s.run.Cgroups)...)
	}
	for _, dir := range parents {
		_ = os.Remove(dir) // fails if it has processes or children
	}
	return err
}

// cniCache is the folder in which libcni, and so containerd, caches results by default.
const cniCache = "/var/lib/cni/results"

func (s sweeper) removeCNICache(ids []string) error {
	entries, err := os.ReadDir(cniCache)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names := s.networkNames()
	var errs []error
	for _, e := range entries {
		ofNetwork := slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(e.Name(), n+"-") })
		ofContainer := slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(e.Name(), id) })
		if ofNetwork || ofContainer {
			errs = append(errs, os.Remove(filepath.Join(cniCache, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// shimSocketDir is constant in containerd's shims, independent of root and state.
const shimSocketDir = "/run/containerd/s"

// shimSockets returns the sockets of the shims, from their bundles. containerd 1.6 stores the
// address as text, 2.x as a JSON object.
func shimSockets(dir string) []string {
	var out []string
	for _, name := range []string{"address", "bootstrap.json"} {
		paths, err := filepath.Glob(filepath.Join(dir, "*/state/io.containerd.runtime.v2.task/*/*", name))
		if err != nil {
			continue // only a bad pattern is an error
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			if socket := shimSocket(text); socket != "" {
				out = union(out, []string{socket}) // containers share the socket of their pod
			}
		}
	}
	return out
}

// shimSocket returns a socket only if it is in shimSocketDir, because it will be deleted.
func shimSocket(text []byte) string {
	var boot struct{ Address string }
	if json.Unmarshal(text, &boot) != nil {
		boot.Address = string(text)
	}
	path := filepath.Clean(strings.TrimPrefix(strings.TrimSpace(boot.Address), "unix://"))
	if filepath.Dir(path) != shimSocketDir {
		return ""
	}
	return path
}

func removeSockets(sockets []string, exclusive bool) {
	for _, socket := range sockets {
		_ = os.Remove(socket)
	}
	if exclusive { // Remove deletes only empty folders, so another runtime's sockets stay
		_ = os.Remove(shimSocketDir)
		_ = os.Remove(filepath.Dir(shimSocketDir))
	}
}

// left returns descriptions of the remains of the run on the machine.
func (s sweeper) left(own owner) []string {
	var out []string
	procs, _ := own.find(s.run.Owner.PID, s.run.Watchdog.PID)
	for _, p := range procs {
		out = append(out, fmt.Sprintf("process %d (%s)", p.PID, p.Name))
	}
	mounts, _ := currentMounts(s.run.Dir)
	for _, m := range mounts {
		out = append(out, "mount "+m)
	}
	for _, n := range s.run.Networks {
		if linkExists(n.Bridge) {
			out = append(out, "interface "+n.Bridge)
		}
	}
	for _, c := range ownCgroups(cgroupDirs(cgroupRoot), own.ids) {
		out = append(out, "cgroup "+c)
	}
	if _, err := os.Lstat(s.run.Dir); err == nil {
		out = append(out, "folder "+s.run.Dir)
	}
	return out
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}
