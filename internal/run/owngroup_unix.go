//go:build unix

package run

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a program the first of its own process group, which its Cancel kills.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
