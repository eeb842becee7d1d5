package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// watchdogArg makes the testbed the watchdog of the run in the next argument.
const watchdogArg = "watchdog-of"

// watchdog is the parent's side of the watchdog, a child process in its own session. The child
// cleans up if the parent's end of a pipe closes without a "done".
type watchdog struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

const watchdogDone = "done"

func startWatchdog(id string) (*watchdog, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, watchdogArg, id)
	cmd.Env = withoutTestbedVars(os.Environ()) // otherwise an outer testbed would kill it as a process of its run
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	return &watchdog{cmd: cmd, pipe: pipe}, nil
}

// dismiss makes the watchdog end without a clean-up, and waits for it.
func (w *watchdog) dismiss() error {
	_, err := io.WriteString(w.pipe, watchdogDone)
	return errors.Join(err, w.pipe.Close(), w.cmd.Wait())
}

// watch is the main function of the child.
func watch(ctx context.Context, c cache, id string, parent io.Reader, report *reporter) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	said, err := io.ReadAll(parent)
	if err != nil || string(said) == watchdogDone {
		return err
	}
	begin := time.Now()
	return c.locked(ctx, "runs", func() error {
		r, err := c.load(id)
		if err != nil {
			return err
		}
		others, err := c.liveRuns(id)
		if err != nil {
			return err
		}
		left, err := sweeper{cache: c, run: r, exclusive: len(others) == 0}.sweep(ctx)
		report.printEnd("testbed was killed; cleaned up after it", begin, left)
		return err
	})
}
