package main

import (
	"errors"
	"os/exec"
	"syscall"
)

// runGroup runs a command of exec.CommandContext in its own process group. When the context ends,
// the group gets SIGINT, and the command is killed if it has not ended commandGrace later. When
// the command has ended, runGroup kills the rest of the group.
func runGroup(cmd *exec.Cmd, started func(pid int) error) error {
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = commandGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }()
	if started != nil {
		if err := started(cmd.Process.Pid); err != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			return errors.Join(err, cmd.Wait())
		}
	}
	return cmd.Wait()
}

// exited reports whether err is the exit code of a command that ran.
func exited(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit)
}
