package main

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// restartDelay is the time until a kubelet that exited by itself is started again.
const restartDelay = time.Second

// agent is a kubelet process under supervision, as by systemd.
type agent struct {
	program string
	args    []string
	log     string          // output is appended to this file
	onExit  func(err error) // called when the process exits without a stop

	mu   sync.Mutex
	cmd  *exec.Cmd
	end  context.CancelFunc // ends the supervision
	done chan struct{}      // closed when the process has ended for good
}

func (a *agent) launch(ctx context.Context) error {
	out, err := os.OpenFile(a.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), a.program, a.args...)
	cmd.Stdout, cmd.Stderr = out, out
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	a.cmd = cmd
	return nil
}

// start starts the process and supervises it until stop is called.
func (a *agent) start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if err := a.launch(ctx); err != nil {
		cancel()
		return err
	}
	a.end, a.done = cancel, make(chan struct{})
	go func() {
		defer close(a.done)
		for {
			err := a.cmd.Wait()
			if ctx.Err() != nil {
				return
			}
			a.onExit(err)
			if sleep(ctx, restartDelay) != nil || a.launch(ctx) != nil {
				return
			}
		}
	}()
	return nil
}

// signal sends a signal to the process. It has no effect on an exited process.
func (a *agent) signal(sig syscall.Signal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.cmd.Process.Signal(sig)
}

// stop ends the process with a signal and waits until it has ended. It kills the process after
// 30 s.
func (a *agent) stop(sig syscall.Signal) {
	if a.done == nil {
		return
	}
	a.end()
	a.signal(sig)
	timer := time.AfterFunc(30*time.Second, func() { a.signal(syscall.SIGKILL) })
	defer timer.Stop()
	<-a.done
}
