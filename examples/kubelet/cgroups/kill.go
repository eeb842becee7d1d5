package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	oci "github.com/opencontainers/cgroups"

	"github.com/podwright/podwright/cri/cgroups"
)

// kill kills the processes in a cgroup and its descendants and reports whether there were any. In
// version 1 it covers the hierarchies of all required controllers, because a process may be in a
// different place in each.
func (h *Host) kill(n cgroups.Name) (some bool, err error) {
	for _, folder := range h.folders(n) {
		pids, err := oci.GetAllPids(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return some, err
		}
		if err := killAll(pids, terminate); err != nil {
			return true, fmt.Errorf("%s: %w", folder, err)
		}
		some = some || len(pids) > 0
	}
	return some, nil
}

// errForeign is the error for a process outside of this PID namespace.
var errForeign = errors.New("cannot kill a process outside of the agent's PID namespace")

// killAll kills processes. The kernel lists a process outside of this PID namespace as 0.
// Signalling 0 would kill the agent's own process group, so killAll skips it and returns an error
// at the end.
func killAll(pids []int, kill func(pid int)) (err error) {
	for _, pid := range pids {
		if pid <= 0 {
			err = errForeign
			continue
		}
		kill(pid)
	}
	return err
}

func terminate(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) } // it may have ended
