package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	readyTimeout = 2 * time.Minute
	// stopTimeout is the time after SIGTERM until a component is killed.
	stopTimeout = 15 * time.Second
)

// component is one program of the control plane. Each start has the same arguments, and so the
// same port and data.
type component struct {
	name    string
	args    []string
	program func(context.Context) (string, error)
	dir     string // working folder
	log     string // its output is appended here
	ready   func(context.Context) error
	died    func(name string, err error) // called if the process ends without a stop or kill

	mu      sync.Mutex // locked for the length of each operation
	process *process
}

// process is one execution of a component.
type process struct {
	cmd           *exec.Cmd
	ended         chan struct{} // closed after Wait has returned
	wasReady      chan struct{} // closed when the component was first ready; a later unexpected end is reported
	stopRequested chan struct{} // closed before a stop or kill
	paused        bool
}

// start starts or continues the component and returns once it is ready. For a running component it
// only waits.
func (c *component) start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready within %v", readyTimeout))
	defer cancel()
	if c.running() {
		c.process.paused = false
		if err := c.process.signal(unix.SIGCONT); err != nil {
			return err
		}
	} else if err := c.launch(ctx); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return c.waitReady(ctx)
}

func (c *component) launch(ctx context.Context) error {
	program, err := c.program(ctx)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, c.args...)
	cmd.Dir = c.dir
	cmd.Stdout, cmd.Stderr = log, log
	// In its own group the component does not get the terminal's Ctrl-C. close stops it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, ended: make(chan struct{}), wasReady: make(chan struct{}), stopRequested: make(chan struct{})}
	c.process = p
	go func() {
		err := cmd.Wait()
		close(p.ended)
		if isClosed(p.wasReady) && !isClosed(p.stopRequested) {
			c.died(c.name, fmt.Errorf("%s exited unexpectedly: %w\n%s", c.name, errors.Join(err, errUnrequestedEnd), tail(c.log, 10)))
		}
	}()
	return nil
}

var errUnrequestedEnd = errors.New("no stop was requested")

// waitReady polls ready until it succeeds, or fails when the process ends.
func (c *component) waitReady(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.ready(ctx)
		if err == nil && !isClosed(c.process.wasReady) {
			close(c.process.wasReady)
		}
		if err == nil {
			return nil
		}
		select {
		case <-c.process.ended:
			return fmt.Errorf("%s exited before it was ready: %w\n%s", c.name, err, tail(c.log, 10))
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; last error: %w", c.name, context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func (c *component) running() bool { return c.process != nil && !isClosed(c.process.ended) }

func (c *component) stop(ctx context.Context) error { return c.end(ctx, unix.SIGTERM) }
func (c *component) kill(ctx context.Context) error { return c.end(ctx, unix.SIGKILL) }

// end sends sig and returns once the process has ended.
func (c *component) end(ctx context.Context, sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running() {
		return nil
	}
	p := c.process
	if !isClosed(p.stopRequested) {
		close(p.stopRequested)
	}
	if err := errors.Join(p.signal(sig), p.signal(unix.SIGCONT)); err != nil {
		return err
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	err := p.signal(unix.SIGKILL)
	<-p.ended
	return err
}

// pause suspends the process. Its connections stay open.
func (c *component) pause(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running() {
		return fmt.Errorf("%s does not run", c.name)
	}
	if c.process.paused {
		return nil
	}
	c.process.paused = true
	if err := c.process.signal(unix.SIGSTOP); err != nil {
		return err
	}
	return c.process.waitStopped()
}

// waitStopped waits until the kernel reports that all threads have stopped. A thread that still
// ran could respond.
func (p *process) waitStopped() error {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
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

// checkOK returns nil if a GET request gets status 200.
func checkOK(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}

// tail returns the last n lines of a log file, for an error.
func tail(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
