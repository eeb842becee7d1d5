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
	// commandGrace is how long the command may take over SIGINT or SIGTERM.
	commandGrace = 30 * time.Second
	// sameSignal is the time within which a signal counts as delivered twice:
	// by the terminal and by whoever started us.
	sameSignal = time.Second
)

// command runs the user's command in a process group of its own.
type command struct {
	argv    []string
	environ []string
	signals <-chan os.Signal
	report  *reporter
	started func(pid int) error // called once the command runs
}

// run returns the command's exit code, or 128 and the signal that ended it.
func (c command) run() (int, error) {
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Env = c.environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if ownsTerminal() {
		cmd.SysProcAttr.Foreground = true // so that it may read, and gets Ctrl-C first
		cmd.SysProcAttr.Ctty = int(os.Stdin.Fd())
		defer takeTerminal()
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
	_ = syscall.Kill(-group, syscall.SIGKILL) // what it left in its group
	return exitCode(err)
}

// wait forwards signals to the command's group until the command has ended.
// A second one, later than a double delivery would come, kills it.
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
			case now.Sub(last) < sameSignal:
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

// ownsTerminal says whether stdin is a terminal whose foreground we are: a
// background job must not take it.
func ownsTerminal() bool {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// takeTerminal makes our own group the foreground again, which the terminal
// answers with SIGTTOU while we are in the background.
func takeTerminal() {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(int(os.Stdin.Fd()), unix.TIOCSPGRP, unix.Getpgrp())
}
