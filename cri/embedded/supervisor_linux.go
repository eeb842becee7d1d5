package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// RunSupervisor must be the first call in the main of a program that uses New:
//
//	func main() {
//		if embedded.RunSupervisor() {
//			return
//		}
//		...
//	}
//
// In an ordinary process it records its call in an environment variable and returns false. In a
// process that New's runtime started as a supervisor, marked by another environment variable, it
// supervises a command to the end and returns true; main must then return at once.
func RunSupervisor() bool {
	if os.Getenv(envSupervise) == "" {
		// Without the mark New returns ErrNoSupervisor.
		_ = markHook()
		return false
	}
	control, report := os.NewFile(3, "control"), os.NewFile(4, "report")
	if err := supervise(control, report); err != nil {
		fmt.Fprintln(os.Stderr, "podwright supervisor:", err)
	}
	return true
}

// supervise runs one command with all its descendants. As their subreaper it becomes the parent of
// orphaned ones, so none can escape into the background or another session. It returns when all
// have ended.
func supervise(control, report *os.File) error {
	// Pdeathsig kills the command when this thread ends, so the thread must stay.
	runtime.LockOSThread()
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	// The command must not inherit descriptors that the agent inherited.
	_ = unix.CloseRange(5, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	// Caught, not ignored: the command would inherit an ignored signal. Only the agent ends a
	// supervisor, not a signal to all processes.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)

	orders, reports := json.NewDecoder(control), json.NewEncoder(report)
	var command hostCommand
	if err := orders.Decode(&command); err != nil {
		return nil // the agent ended before it sent a command
	}
	main, err := startCommand(command)
	if err != nil {
		return reports.Encode(hostReport{Error: err.Error()})
	}
	s := &supervisor{main: main, code: 128 + int(unix.SIGKILL)}
	if err := reports.Encode(hostReport{PID: main}); err != nil {
		s.end()
	}
	s.loop(readOrders(orders), died)
	// It fails if the agent has ended, which is harmless.
	_ = reports.Encode(hostReport{Ended: true, Code: s.code})
	return nil
}

// startCommand starts the command as leader of a session and process group.
func startCommand(command hostCommand) (pid int, err error) {
	return syscall.ForkExec(command.Path, command.Args, &syscall.ProcAttr{
		Dir:   command.Dir,
		Env:   command.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: command.TTY, Ctty: 0, Pdeathsig: syscall.SIGKILL},
	})
}

// readOrders returns the agent's orders. The channel is closed when the agent closes its end of
// the pipe or dies.
func readOrders(orders *json.Decoder) <-chan hostOrder {
	out := make(chan hostOrder)
	go func() {
		defer close(out)
		for {
			var order hostOrder
			if orders.Decode(&order) != nil {
				return
			}
			out <- order
		}
	}()
	return out
}

type supervisor struct {
	main   int  // PID of the command
	code   int  // exit code, after the command has ended
	gone   bool // the command has ended and was reaped
	ending bool // all processes are being killed
}

// loop returns when all processes have ended.
func (s *supervisor) loop(orders <-chan hostOrder, died <-chan os.Signal) {
	for {
		if left := s.reap(); !left {
			return
		}
		if s.ending && !s.killChildren() {
			return
		}
		select {
		case <-died:
		case order, ok := <-orders:
			if !ok {
				orders = nil
				s.end()
			} else if !s.gone {
				_ = unix.Kill(-s.main, unix.Signal(order.Signal))
			}
		}
	}
}

func (s *supervisor) end() {
	s.ending = true
	if !s.gone {
		_ = unix.Kill(-s.main, unix.SIGKILL)
	}
}

// reap collects ended children and reports whether any remain. The end of the command makes loop
// kill all its descendants.
func (s *supervisor) reap() (left bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false
		case pid == 0:
			return true
		case pid == s.main:
			s.gone, s.ending, s.code = true, true, exitCode(status)
		}
	}
}

// killChildren kills the direct children and reports whether it killed any. Their children then
// become direct children of this process and are killed next. Only this process reaps its
// children, so their PIDs are not reused.
func (s *supervisor) killChildren() (any bool) {
	for _, pid := range childrenOf(os.Getpid()) {
		if unix.Kill(pid, unix.SIGKILL) == nil {
			any = true
		}
	}
	return any
}

// childrenOf lists the direct children of a process, including dead ones.
func childrenOf(parent int) []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	var children []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err == nil && parentIn(string(stat)) == parent {
			children = append(children, pid)
		}
	}
	return children
}

// parentIn returns the parent's PID from /proc/PID/stat, or 0: the second field after the command
// name, which is in parentheses and may contain any character.
func parentIn(stat string) int {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}

// exitCode returns the exit code as a shell reports it.
func exitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
