package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 10 * time.Second
)

// containerd is one runtime process, which can be stopped and started again.
type containerd struct {
	instance
	report *reporter

	mu     sync.Mutex // locked for the length of each operation
	cur    *process   // nil if it does not run
	closed bool       // set at the teardown; start fails afterwards
}

// process is one execution of a containerd.
type process struct {
	cmd    *exec.Cmd
	died   chan struct{} // closed after Wait has returned
	paused bool

	mu            sync.Mutex
	stopRequested bool // set before a stop or kill
}

// prepare writes the configuration files of the runtime.
func (c *containerd) prepare() error {
	conf, err := c.config()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.CNIConfDir(), 0o755); err != nil {
		return err
	}
	for _, host := range mirrored {
		dir := filepath.Join(c.HostsDir(), host)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(c.mirrorConfig()), 0o644); err != nil {
			return err
		}
	}
	conflist, err := c.Network.conflist(c.Dir+"/ipam", c.WithPortmap)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.CNIConfDir()+"/10-podwright.conflist", conflist, 0o644); err != nil {
		return err
	}
	return os.WriteFile(c.ConfigFile(), []byte(conf), 0o644)
}

// start starts or resumes the runtime and returns once it is ready.
func (c *containerd) start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("containerd %s: the testbed is being torn down", c.Key)
	}
	if c.cur != nil && !isClosed(c.cur.died) {
		if err := c.cur.signal(syscall.SIGCONT); err != nil {
			return err
		}
		c.cur.paused = false
	} else if err := c.spawn(); err != nil {
		return fmt.Errorf("start containerd %s: %w", c.Key, err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	version, err := waitReady(ctx, c.Socket(), c.cur.died)
	if err != nil {
		return fmt.Errorf("containerd %s: %w\n%s", c.Key, err, tail(c.LogFile))
	}
	c.Version = version
	return nil
}

func (c *containerd) spawn() error {
	log, err := os.OpenFile(c.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(c.Bin, "--config", c.ConfigFile())
	cmd.Dir = c.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(withoutTestbedVars(os.Environ()), "PATH="+c.SearchPath)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // keeps Ctrl-C of the terminal away
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, died: make(chan struct{})}
	c.cur = p
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		stopRequested := p.stopRequested
		p.mu.Unlock()
		if !stopRequested {
			c.report.line("containerd %s exited unexpectedly: %v; see %s", c.Key, err, c.LogFile)
		}
		close(p.died)
	}()
	return nil
}

// end sends sig and waits. It kills the process after a timeout.
func (c *containerd) end(ctx context.Context, sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.cur
	if p == nil {
		return nil
	}
	p.mu.Lock()
	p.stopRequested = true
	p.mu.Unlock()
	if err := p.signal(sig); err != nil {
		return err
	}
	if p.paused && sig != syscall.SIGKILL {
		if err := p.signal(syscall.SIGCONT); err != nil {
			return err
		}
	}
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-p.died:
	case <-timeout.C:
		if err := p.signal(syscall.SIGKILL); err != nil {
			return err
		}
		<-p.died
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.cur = nil
	return nil
}

func (c *containerd) stop(ctx context.Context) error { return c.end(ctx, syscall.SIGTERM) }
func (c *containerd) kill(ctx context.Context) error { return c.end(ctx, syscall.SIGKILL) }

// close stops the runtime and prevents further starts.
func (c *containerd) close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return c.stop(ctx)
}

// pause suspends the process and returns once all threads have stopped. A thread that still ran
// could respond.
func (c *containerd) pause(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cur == nil || isClosed(c.cur.died):
		return fmt.Errorf("containerd %s does not run", c.Key)
	case c.cur.paused:
		return nil
	}
	if err := c.cur.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	c.cur.paused = true
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	return c.cur.waitStopped(ctx)
}

func (c *containerd) resume(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cur == nil || isClosed(c.cur.died) {
		return fmt.Errorf("containerd %s does not run", c.Key)
	}
	c.cur.paused = false
	return c.cur.signal(syscall.SIGCONT)
}

// waitStopped waits until the kernel reports to the parent, this process, that all threads have
// stopped. It does not consume the report of the process's end.
func (p *process) waitStopped(ctx context.Context) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
		if err == nil && info.Signo != 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the stop: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the stop: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// running reports whether the process runs and is not paused.
func (c *containerd) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cur != nil && !isClosed(c.cur.died) && !c.cur.paused
}

func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// tail returns the last lines of a log file, for an error message.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return lastLines(text)
}

func lastLines(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
