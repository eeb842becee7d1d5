package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// commandGrace is the time between SIGINT or SIGTERM and SIGKILL.
	commandGrace = 30 * time.Second
	// signalWindow is the time within which two signals count as one, delivered by the terminal and
	// by the parent process.
	signalWindow = time.Second
)

// command runs the user's command in its own process group.
type command struct {
	argv    []string
	environ []string
	signals <-chan os.Signal
	report  *reporter
	started func(pid int) error // called once the command runs
}

// run returns the command's exit code, or 128 plus the signal that ended it.
func (c command) run() (int, error) {
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Env = c.environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if isForeground() {
		cmd.SysProcAttr.Foreground = true // allows the command to read, and sends Ctrl-C to it
		cmd.SysProcAttr.Ctty = int(os.Stdin.Fd())
		defer moveToForeground()
	}
	if err := cmd.Start(); err != nil {
		return exitNotFound, err
	}
	group := cmd.Process.Pid
	if err := c.started(group); err != nil {
		_ = syscall.Kill(-group, syscall.SIGKILL)
		_ = cmd.Wait()
		return exitSetup, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	err := c.wait(group, done)
	_ = syscall.Kill(-group, syscall.SIGKILL) // processes that remain in its group
	return exitCode(err)
}

// wait forwards signals to the command's group until the command has ended. A second signal after
// more than signalWindow kills the group.
func (c command) wait(group int, done <-chan error) error {
	var last time.Time
	var grace <-chan time.Time
	for {
		select {
		case err := <-done:
			return err
		case <-grace:
			c.report.line("the command did not end within %v: killing it", commandGrace)
			_ = syscall.Kill(-group, syscall.SIGKILL)
		case sig := <-c.signals:
			now := time.Now()
			switch {
			case now.Sub(last) < signalWindow:
			case last.IsZero() || sig == syscall.SIGQUIT:
				_ = syscall.Kill(-group, sig.(syscall.Signal))
				grace = time.After(commandGrace)
			default:
				c.report.line("%v again: killing the command", sig)
				_ = syscall.Kill(-group, syscall.SIGKILL)
			}
			last = now
		}
	}
}

func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return exitSetup, err
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// isForeground reports whether stdin is a terminal with this process in the foreground. A
// background job must not take the terminal.
func isForeground() bool {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// moveToForeground moves this process group to the foreground. The call makes the kernel send
// SIGTTOU to a background process, so moveToForeground ignores that signal.
func moveToForeground() {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(int(os.Stdin.Fd()), unix.TIOCSPGRP, unix.Getpgrp())
}
