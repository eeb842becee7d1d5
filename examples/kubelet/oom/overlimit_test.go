package oom_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// overLimit runs a process in a cgroup until its memory is over the limit, and returns its PID.
func overLimit(t *testing.T, procs string) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", `echo $$ > "$0" && exec tail /dev/zero`, procs)
	err := cmd.Run()
	require.ErrorContains(t, err, "killed")
	return cmd.Process.Pid
}
