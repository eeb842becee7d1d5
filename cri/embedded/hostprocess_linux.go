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
	"github.com/podwright/podwright/internal/fs"
)

// resolver returns a Resolver that runs the programs of containers and of ExecSync as host
// processes. Each container has a directory below scratch until it exits.
func resolver(scratch string, logger *slog.Logger) (fake.Resolver, error) {
	if !hookMarked() {
		return nil, ErrNoSupervisor
	}
	return func(ctx context.Context, p *fake.Process) (fake.Program, error) {
		return startHost(ctx, &hostProcess{scratchDir: scratch, logger: logger}, p)
	}, nil
}

// hostProcess is the agent's side of a command and its supervisor.
type hostProcess struct {
	scratchDir string
	logger     *slog.Logger
	supervisor *exec.Cmd
	// control carries orders to the supervisor. When it closes, also by the agent's death, the
	// supervisor kills all its processes.
	control *os.File
	orders  *json.Encoder
	reports *json.Decoder
	report  *os.File
	streams *hostStreams
	scratch string
	pid     int
}

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
	// Closing the control pipe makes the supervisor kill the command and exit, so that the report
	// ends.
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
		h.scratch = dir // removed by the container's own process
	}
	return dir, os.MkdirAll(dir, 0o700)
}

func (h *hostProcess) removeScratch() {
	if h.scratch == "" {
		return
	}
	if err := os.RemoveAll(h.scratch); err != nil {
		h.logger.Warn("scratch directory not removed", "path", h.scratch, "err", err)
	}
}

// startSupervisor starts this executable as a supervisor. Its own session keeps signals of the
// agent's terminal or service manager away from it.
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

func (h *hostProcess) sendCommand(command hostCommand) error {
	if err := h.orders.Encode(command); err != nil {
		return fmt.Errorf("send the command to the supervisor: %w", err)
	}
	var report hostReport
	if err := h.reports.Decode(&report); err != nil {
		return fmt.Errorf("the command's supervisor exited: %w", err)
	}
	if report.Error != "" {
		return &exec.Error{Name: command.Args[0], Err: errors.New(report.Error)}
	}
	h.pid = report.PID
	return nil
}

// wait forwards signals to a running command until it has ended.
func (h *hostProcess) wait(ctx context.Context, signals <-chan syscall.Signal) int {
	defer h.removeScratch()
	ended := make(chan int, 1)
	go func() { ended <- h.awaitEnd() }()
	for {
		select {
		case sig := <-signals:
			// The error means that the supervisor has exited, and with it the command.
			_ = h.orders.Encode(hostOrder{Signal: int(sig)})
		case <-ctx.Done():
			return h.destroy(ended)
		case code := <-ended:
			h.release()
			return code
		}
	}
}

// awaitEnd waits for the report that all processes of the command have ended, and returns the exit
// code. Without a report the supervisor was killed. The kernel then kills the command, and
// awaitEnd kills its process group.
func (h *hostProcess) awaitEnd() int {
	var report hostReport
	if err := h.reports.Decode(&report); err == nil && report.Ended {
		return report.Code
	}
	_ = unix.Kill(-h.pid, unix.SIGKILL)
	return 128 + int(unix.SIGKILL)
}

// destroy makes the supervisor kill all processes. A supervisor that exceeds killTimeout is killed
// itself.
func (h *hostProcess) destroy(ended <-chan int) int {
	h.control.Close()
	defer h.killLater().Stop()
	code := <-ended
	h.release()
	return code
}

// killLater kills the supervisor after killTimeout unless the timer is stopped.
func (h *hostProcess) killLater() *time.Timer {
	return time.AfterFunc(killTimeout, func() {
		h.logger.Warn("killing a supervisor that did not exit in time", "pid", h.supervisor.Process.Pid)
		_ = h.supervisor.Process.Kill()
	})
}

// release waits for the supervisor and closes its files. The command's output is then complete.
func (h *hostProcess) release() {
	if h.supervisor == nil {
		return
	}
	h.control.Close()
	defer h.killLater().Stop()
	// The supervisor's exit status is not the command's.
	_ = h.supervisor.Wait()
	h.streams.close()
	h.report.Close()
}

func lockDir(dir string) (unlock func() error, err error) {
	file, err := fs.TryLock(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrLocked) {
		return nil, fmt.Errorf("%s is in use by another process: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	return file.Close, nil
}
