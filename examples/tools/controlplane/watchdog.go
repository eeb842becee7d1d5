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

// watchdogArg makes this program the watchdog of the folder in the next argument.
const watchdogArg = "watchdog-of"

// watchdog is a child process in its own session. It removes the run's folder once the pipe to
// this process closes, even if this process was killed. The components have ended by then, because
// they die with this process.
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

// finish closes the pipe and returns once the watchdog has removed the folder.
func (w *watchdog) finish() error {
	_ = w.pipe.Close()
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("watchdog: %w", err)
	}
	return nil
}

func runWatchdog(dir string, pipe io.Reader, errors io.Writer) int {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	_, _ = io.Copy(io.Discard, pipe)
	var err error
	for range 50 { // killed components may still write files
		if err = os.RemoveAll(dir); err == nil {
			return 0
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Fprintln(errors, "controlplane: watchdog:", err)
	return 1
}
