package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchdogArg makes this program the watchdog of the folder named after it.
const watchdogArg = "watchdog-of"

// watchdog is a child in a session of its own that removes the run's folder once
// the other end of its pipe closes: also when this process was killed. The
// components have ended then, since they die with it.
type watchdog struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

func startWatchdog(dir string) (*watchdog, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, watchdogArg, dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	return &watchdog{cmd, pipe}, nil
}

// finish returns once the folder is gone.
func (w *watchdog) finish() error {
	_ = w.pipe.Close()
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("watchdog: %w", err)
	}
	return nil
}

// runWatchdog is the child's side.
func runWatchdog(dir string, pipe io.Reader, errors io.Writer) int {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	_, _ = io.Copy(io.Discard, pipe)
	var err error
	for range 50 { // what is killed may write a last file meanwhile
		if err = os.RemoveAll(dir); err == nil {
			return 0
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Fprintln(errors, "controlplane: watchdog:", err)
	return 1
}
