package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/cri/fake"
)

// resolver returns the programs of containers, and of ExecSync, as processes of this
// host. Each container has a directory below scratch until it exits.
func resolver(scratch string, logger *slog.Logger) (fake.Resolver, error) {
	if !hookMarked() {
		return nil, ErrNoSupervisor
	}
	return func(ctx context.Context, p *fake.Process) (fake.Program, error) {
		return startHost(ctx, &hostProcess{scratchDir: scratch, logger: logger}, p)
	}, nil
}

// hostProcess is a command under its supervisor, seen from the agent.
type hostProcess struct {
	scratchDir string
	logger     *slog.Logger
	supervisor *exec.Cmd
	// control tells the supervisor what to do; its closing, or the agent's
	// death, tells it to kill everything.
	control *os.File
	orders  *json.Encoder
	reports *json.Decoder
	report  *os.File
	streams *hostStreams
	scratch string
	pid     int
}

// startHost starts a command and returns the program that sees it through.
func startHost(ctx context.Context, h *hostProcess, p *fake.Process) (fake.Program, error) {
	if err := h.start(ctx, p); err != nil {
		h.removeScratch()
		return nil, err
	}
	signals := p.Signals()
	return func(ctx context.Context, _ *fake.Process) int { return h.wait(ctx, signals) }, nil
}

func (h *hostProcess) start(ctx context.Context, p *fake.Process) error {
	dir, err := h.makeScratch(p)
	if err != nil {
		return err
	}
	command, err := commandOf(p, hostPath(), dir, executable)
	if err != nil {
		return err
	}
	if stat, err := os.Stat(command.Dir); err != nil || !stat.IsDir() {
		return fmt.Errorf("chdir to cwd (%q) set in the container's config failed: no such directory", command.Dir)
	}
	if err := h.startSupervisor(p); err != nil {
		return err
	}
	// The end of the call is the end of the attempt: without its control pipe
	// the supervisor kills what it has and leaves, and the report ends.
	stop := context.AfterFunc(ctx, func() { h.control.Close() })
	err = h.sendCommand(command)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		h.release()
		return err
	}
	return nil
}

func (h *hostProcess) makeScratch(p *fake.Process) (string, error) {
	dir := filepath.Join(h.scratchDir, p.Container.Name+"-"+p.Container.ID)
	if !p.Exec {
		h.scratch = dir // the container's own process takes it away
	}
	return dir, os.MkdirAll(dir, 0o700)
}

func (h *hostProcess) removeScratch() {
	if h.scratch == "" {
		return
	}
	if err := os.RemoveAll(h.scratch); err != nil {
		h.logger.Warn("a scratch directory cannot be removed", "path", h.scratch, "err", err)
	}
}

// startSupervisor starts this executable once more, in a session of its own, so that
// what the terminal or the service manager sends to the agent does not reach it.
func (h *hostProcess) startSupervisor(p *fake.Process) (err error) {
	var pipes [4]*os.File // control read and write, report read and write
	defer func() {
		for i, file := range pipes {
			if file != nil && (err != nil || i == 0 || i == 3) {
				file.Close()
			}
		}
	}()
	if pipes[0], pipes[1], err = os.Pipe(); err != nil {
		return err
	}
	if pipes[2], pipes[3], err = os.Pipe(); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"podwright-supervisor", p.Container.Name, p.Container.ID}
	cmd.Env = append(os.Environ(), envSupervise+"="+p.Container.ID, "GOMAXPROCS=1")
	streams, err := connectHost(cmd, p)
	if err != nil {
		return err
	}
	defer streams.closeCommandEnds()
	cmd.ExtraFiles = []*os.File{pipes[0], pipes[3]}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = killTimeout
	if err := cmd.Start(); err != nil {
		streams.close()
		return fmt.Errorf("start the supervisor: %w", err)
	}
	streams.copyStreams(p)
	h.streams = streams
	h.supervisor, h.control, h.report = cmd, pipes[1], pipes[2]
	h.orders, h.reports = json.NewEncoder(h.control), json.NewDecoder(h.report)
	return nil
}

// sendCommand hands the command over and waits until it runs.
func (h *hostProcess) sendCommand(command hostCommand) error {
	if err := h.orders.Encode(command); err != nil {
		return fmt.Errorf("tell the supervisor the command: %w", err)
	}
	var report hostReport
	if err := h.reports.Decode(&report); err != nil {
		return fmt.Errorf("the supervisor of the command ended: %w", err)
	}
	if report.Error != "" {
		return &exec.Error{Name: command.Args[0], Err: errors.New(report.Error)}
	}
	h.pid = report.PID
	return nil
}

// wait passes signals on to a running command until it has ended.
func (h *hostProcess) wait(ctx context.Context, signals <-chan syscall.Signal) int {
	defer h.removeScratch()
	ended := make(chan int, 1)
	go func() { ended <- h.awaitEnd() }()
	for {
		select {
		case sig := <-signals:
			// A supervisor that is gone has nothing to signal any more.
			_ = h.orders.Encode(hostOrder{Signal: int(sig)})
		case <-ctx.Done():
			return h.destroy(ended)
		case code := <-ended:
			h.release()
			return code
		}
	}
}

// awaitEnd waits for the report that nothing of the command is left. Without one
// the supervisor itself was killed; the kernel then killed the command, and what
// is still in its process group is killed here.
func (h *hostProcess) awaitEnd() int {
	var report hostReport
	if err := h.reports.Decode(&report); err == nil && report.Ended {
		return report.Code
	}
	_ = unix.Kill(-h.pid, unix.SIGKILL)
	return 128 + int(unix.SIGKILL)
}

// destroy kills everything. The supervisor does it; should it not be able to, it
// is killed itself.
func (h *hostProcess) destroy(ended <-chan int) int {
	h.control.Close()
	defer h.killLater().Stop()
	code := <-ended
	h.release()
	return code
}

// killLater kills the supervisor if it does not end in time.
func (h *hostProcess) killLater() *time.Timer {
	return time.AfterFunc(killTimeout, func() {
		h.logger.Warn("a supervisor does not end and is killed", "pid", h.supervisor.Process.Pid)
		_ = h.supervisor.Process.Kill()
	})
}

// release ends the supervisor and lets go of everything. Its output is complete then.
func (h *hostProcess) release() {
	if h.supervisor == nil {
		return
	}
	h.control.Close()
	defer h.killLater().Stop()
	// The supervisor's own exit says nothing about the command's.
	_ = h.supervisor.Wait()
	h.streams.close()
	h.report.Close()
}

// lockDir takes a directory for this process, until it calls unlock or ends.
func lockDir(dir string) (unlock func() error, err error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s is in use by another process: %w", dir, err)
	}
	return file.Close, nil
}
