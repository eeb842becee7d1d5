package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	oci "github.com/opencontainers/cgroups"

	"github.com/podwright/podwright/cri/cgroups"
)

// kill kills what runs in a cgroup and below it, and tells whether there was something.
// Of version 1 it looks at all hierarchies: a process need not be in the same place of each.
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

// errForeign is about a process that the kernel shows without a number.
var errForeign = errors.New("a process in it is outside of this PID namespace, and cannot be killed from here")

// killAll kills processes. One that this PID namespace does not have is listed as number 0:
// a signal for that would go to the agent's own process group instead, so it is an error,
// once the others were killed.
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
