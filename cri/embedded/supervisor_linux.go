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

// RunSupervisor must be the first thing in the main of a program that uses
// New:
//
//	func main() {
//		if embedded.RunSupervisor() {
//			return
//		}
//		...
//	}
//
// In an ordinary process it notes that it was called, in an environment variable,
// and returns false. In a process that New's runtime has started to supervise a
// command (an environment variable says so) it does that to the end and returns
// true; main must then return without doing anything else.
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

// supervise runs one command and everything that comes from it. It is the
// subreaper of its descendants: whichever of them loses its parent becomes its
// child, so none can get away by going into the background or into a session of
// its own. It ends when none is left.
func supervise(control, report *os.File) error {
	// The command is to die with this thread (Pdeathsig), so the thread stays.
	runtime.LockOSThread()
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	// Descriptors that the agent itself inherited are none of the command's business.
	_ = unix.CloseRange(5, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	// Caught, not ignored: an ignored signal would stay ignored in the command.
	// It is the agent that ends a supervisor, not what is sent to all processes.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)

	orders, reports := json.NewDecoder(control), json.NewEncoder(report)
	var command hostCommand
	if err := orders.Decode(&command); err != nil {
		return nil // the agent has gone before it said anything
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
	// The agent may be gone; then nobody wants to know.
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

// readOrders hands on what the agent says. The channel is closed when the agent
// has closed its end of the pipe or has died.
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

// supervisor watches over one command.
type supervisor struct {
	main   int  // PID of the command
	code   int  // its exit code, once it has ended
	gone   bool // the command has ended and was reaped
	ending bool // everything is being killed
}

// loop returns when no process is left.
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

// end begins to kill everything.
func (s *supervisor) end() {
	s.ending = true
	if !s.gone {
		_ = unix.Kill(-s.main, unix.SIGKILL)
	}
}

// reap collects the children that have ended and tells whether any are left. The
// end of the command is the end of all that came from it.
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

// killChildren kills the direct children and tells whether it could kill any.
// The children of those become direct children by their death and come next.
// Only this process reaps its children, so their PIDs cannot have been reused.
func (s *supervisor) killChildren() (any bool) {
	for _, pid := range childrenOf(os.Getpid()) {
		if unix.Kill(pid, unix.SIGKILL) == nil {
			any = true
		}
	}
	return any
}

// childrenOf lists the direct children of a process, dead ones included.
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

// parentIn reads the parent's PID out of a /proc/PID/stat: the second field after
// the command name, which is in parentheses and may hold anything. 0 when there
// is none.
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

// exitCode is the code by which a shell would tell the end of a process.
func exitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
