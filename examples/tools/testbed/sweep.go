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

// sweeper takes away, by force, whatever a run left on the machine. It needs
// the run's record only, so the testbed, its watchdog and the next testbed all
// use it, and any of them may take over from one that died in the middle.
type sweeper struct {
	cache cache
	run   record
	alone bool // no other testbed lives; shared parents may go
	// pods are cgroups of pods that an orderly removal emptied before.
	pods []string
}

// sweep returns what is left after its work, as words for a person; empty
// when the machine is as before.
func (s sweeper) sweep(ctx context.Context) ([]string, error) {
	own := owner{id: s.run.ID, dir: s.run.Dir, ids: containerIDs(s.run.Dir)}
	sockets := shimSockets(s.run.Dir)
	var errs []error
	try := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}

	if alive(s.run.Command) {
		_ = syscall.Kill(-s.run.Command.PID, syscall.SIGKILL)
	}
	held := ownCgroups(cgroupDirs(cgroupRoot), own.ids)
	s.pods = union(s.pods, podLevel(held))
	thaw(held)
	find := func() ([]procInfo, error) {
		// A shim that was still starting a container may have made an id known.
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
	removeSockets(sockets, s.alone)
	if s.alone {
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
	if s.alone {
		before = append([]string{}, s.run.Chains...) // not nil
	}
	return cleanNAT(ctx, s.networkNames(), before)
}

func (s sweeper) removeCgroups(ids []string) error {
	dirs := cgroupDirs(cgroupRoot)
	err := removeCgroups(ownCgroups(dirs, ids))
	parents := s.pods
	if s.alone {
		parents = append(parents, emptiedParents(dirs, s.run.Cgroups)...)
	}
	for _, dir := range parents {
		_ = os.Remove(dir) // fails where something lives in it
	}
	return err
}

// cniCache is where libcni, and so containerd, keeps results by default.
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

// shimSocketDir is fixed in containerd's shims, whatever root and state say.
const shimSocketDir = "/run/containerd/s"

// shimSockets reads from the bundles where the shims listen: containerd 1.6
// keeps the bare address, 2.x a JSON object.
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
				out = union(out, []string{socket}) // containers share their pod's
			}
		}
	}
	return out
}

// shimSocket accepts only a path in the shims' folder: it will be deleted.
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

func removeSockets(sockets []string, alone bool) {
	for _, socket := range sockets {
		_ = os.Remove(socket)
	}
	if alone { // empty folders only; a runtime of the machine keeps its own
		_ = os.Remove(shimSocketDir)
		_ = os.Remove(filepath.Dir(shimSocketDir))
	}
}

// left looks at the machine once more.
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
