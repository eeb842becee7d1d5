package fake

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"path"
	"strings"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A Program is what a container runs: it gets arguments, environment, standard
// streams and signals in its Process and returns the exit code.
//
// The context is the life of the program. It ends when the program is killed:
// by SIGKILL, or by another signal whose default action is to terminate while
// the program has not asked for its signals (see Process.Signals). From then on
// the exit code is 128 plus the signal's number whatever the program returns.
// A program that does not return within 10 seconds of its context's end
// is abandoned: its container counts as killed, and Close names it.
//
// A panic, or a call of runtime.Goexit, is exit code 2 with the panic written to
// standard error. It never reaches the process that the runtime lives in. That
// holds for the goroutine that the Program is called on: a panic in one that it
// has started itself ends the process, as everywhere in Go.
type Program func(ctx context.Context, p *Process) int

// A Resolver chooses the program for a container that is about to start, or for
// a command that ExecSync runs.
//
// An error fails StartContainer the way a real runtime fails when there is no
// such executable: code Unknown, and the container exits with code 128 and
// reason StartError; so does a panic, and no Program. A StartFailure chooses
// these. A Program that is returned always runs, at worst with a
// context that has already ended, so a Resolver may acquire what the Program
// releases. The context is that of the call and ends with the runtime, too (see
// Runtime.Stop); a Resolver must return when it ends.
type Resolver func(ctx context.Context, p *Process) (Program, error)

// ErrNotFound is what the Resolvers of this package return for a command that
// they do not know. Its text is the one runtimes use.
var ErrNotFound = errors.New("executable file not found in $PATH")

// ErrPermission is what a Resolver returns for a command that cannot be
// executed. Its text is the one runtimes use; see ErrNotFound.
var ErrPermission = errors.New("permission denied")

// SleepUntilStopped is the program that does nothing until it is killed. It does
// not handle signals, so an ordinary stop ends it at once with exit code 143.
func SleepUntilStopped(ctx context.Context, _ *Process) int {
	<-ctx.Done()
	return 0
}

// Exit returns the program that ends at once with the given exit code.
func Exit(code int) Program {
	return func(context.Context, *Process) int { return code }
}

// KilledBy returns the program that dies at once of a signal that it has brought
// upon itself, such as SIGSEGV: its exit code is 128 plus the signal's number.
func KilledBy(signal syscall.Signal) Program { return Exit(128 + int(signal)) }

// OutOfMemory is the program that the kernel kills at once because its memory
// is used up: exit code 137 and reason OOMKilled.
func OutOfMemory(_ context.Context, p *Process) int {
	p.OOMKilled()
	return 128 + int(sigKill)
}

// Always resolves everything to one program.
func Always(program Program) Resolver {
	return func(context.Context, *Process) (Program, error) { return program, nil }
}

// ByCommand chooses by the first word of the command line, which is "" for a
// container without command and arguments. Commands not in the map get
// otherwise; when that is nil they are not found.
func ByCommand(programs map[string]Program, otherwise Program) Resolver {
	return choose(programs, otherwise, commandName)
}

// commandName is the first word of the command line, "" without one.
func commandName(p *Process) string {
	if len(p.Args) == 0 {
		return ""
	}
	return p.Args[0]
}

// ByContainer chooses by the container's name, that of its CRI metadata.
// Containers not in the map get otherwise; when that is nil their command is
// not found.
func ByContainer(programs map[string]Program, otherwise Program) Resolver {
	return choose(programs, otherwise, func(p *Process) string { return p.Container.Name })
}

func choose(programs map[string]Program, otherwise Program, key func(*Process) string) Resolver {
	return func(_ context.Context, p *Process) (Program, error) {
		if program := programs[key(p)]; program != nil {
			return program, nil
		}
		if otherwise != nil {
			return otherwise, nil
		}
		return nil, &exec.Error{Name: commandName(p), Err: ErrNotFound}
	}
}

// A Process is what a Program sees of the world. Everything in it belongs to the
// program; changes have no effect on the container.
type Process struct {
	// Container and Pod say who runs; Exec tells a command of ExecSync from
	// the container's own process.
	Container ContainerIdentity
	Pod       PodIdentity
	Exec      bool

	// Args is the command line: command and args of the container, or the
	// command given to ExecSync.
	Args []string
	// Env holds "NAME=value", in the order of the container's config.
	Env []string
	// Dir is the container's working directory, "" when it names none.
	Dir string
	// Mounts lists the container's bind mounts. See HostPath.
	Mounts []Mount

	// Stdin is what clients of attach send, when the container's config has
	// stdin, and what the client of an exec sends. Else it is at its end from
	// the start, as a NoInput; a killed program's is at its end, too.
	Stdin io.Reader
	// Stdout and Stderr go to the container's log and to its attached clients,
	// or to the caller of ExecSync or exec. They are safe for concurrent use
	// and fail after the exit. A client that does not read holds them up.
	Stdout, Stderr io.Writer
	// TTY tells that the program is to have a terminal. There is none: nothing
	// echoes or translates. But Stdout and Stderr are one stream, as they are
	// with a terminal, and Resize has its sizes.
	TTY bool
	// Resize delivers the newest size of the terminal, as SIGWINCH tells of
	// it. It is never closed. nil without TTY.
	Resize <-chan TerminalSize

	task *task
}

// NoInput is the standard input of a program that gets none. See Process.Stdin.
type NoInput struct{}

// Read returns io.EOF.
func (NoInput) Read([]byte) (int, error) { return 0, io.EOF }

// ContainerIdentity names a container.
type ContainerIdentity struct {
	// ID is the runtime's ID of the container.
	ID string
	// Name and Attempt are those of the CRI metadata; Attempt is the number
	// of restarts.
	Name    string
	Attempt uint32
	// Image is the image as the container's config gives it.
	Image string
}

// PodIdentity names the pod of a container.
type PodIdentity struct {
	// SandboxID is the runtime's ID of the pod's sandbox.
	SandboxID string
	// Name, Namespace and UID are those of the sandbox's CRI metadata.
	Name, Namespace, UID string
	// Hostname is what the sandbox's config asks for, "" with host network.
	Hostname string
	// IPs are the sandbox's addresses, none with host network.
	IPs []string
}

// A Mount is a bind mount of a container.
type Mount struct {
	// ContainerPath is where the container would see it, HostPath where it is.
	ContainerPath, HostPath string
	// Readonly tells that the container may not write there.
	Readonly bool
}

// Signals returns the channel on which the program gets its signals, and takes
// them over: as with a handler in an ordinary process, signals other than
// SIGKILL then have no default action any more. A program that never calls it
// is terminated by SIGTERM. Calls return the same channel. It holds 16 signals;
// more are dropped while nobody receives. It is never closed.
func (p *Process) Signals() <-chan syscall.Signal { return p.task.handleSignals() }

// OOMKilled marks the container as out of memory: once it has exited its reason
// is OOMKilled, whatever its exit code. A real one exits with 137.
func (p *Process) OOMKilled() { p.task.markOOM() }

// Explain sets the reason and the message that the container has once it has
// exited, in place of Completed, Error or OOMKilled. An empty reason leaves the
// runtime's own. It has no effect on a command of ExecSync.
func (p *Process) Explain(reason, message string) {
	p.task.mu.Lock()
	defer p.task.mu.Unlock()
	p.task.reason, p.task.message = reason, message
}

// Getenv returns the value of an environment variable, "" when it is not set.
func (p *Process) Getenv(name string) string {
	value, _ := p.LookupEnv(name)
	return value
}

// LookupEnv returns the value of an environment variable and whether it is set.
// The last one of a name counts.
func (p *Process) LookupEnv(name string) (string, bool) {
	for i := len(p.Env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(p.Env[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// HostPath translates an absolute path in the container to one on the host
// through the deepest mount that holds it. Containers of the fake have no
// filesystem of their own: outside of mounts there is no answer.
func (p *Process) HostPath(containerPath string) (string, bool) {
	return translate(p.Mounts, containerPath)
}

func translate(mounts []Mount, containerPath string) (string, bool) {
	clean := path.Clean(containerPath)
	best, depth := "", -1
	for _, m := range mounts {
		at := path.Clean(m.ContainerPath)
		rest, ok := strings.CutPrefix(clean, strings.TrimSuffix(at, "/"))
		if !ok || m.HostPath == "" || (rest != "" && rest[0] != '/') || len(at) <= depth {
			continue
		}
		best, depth = path.Join(m.HostPath, rest), len(at)
	}
	return best, depth >= 0
}

func mountsOf(mounts []*runtimeapi.Mount) []Mount {
	if len(mounts) == 0 {
		return nil
	}
	out := make([]Mount, len(mounts))
	for i, m := range mounts {
		out[i] = Mount{ContainerPath: m.GetContainerPath(), HostPath: m.GetHostPath(), Readonly: m.GetReadonly()}
	}
	return out
}

func envOf(envs []*runtimeapi.KeyValue) []string {
	if len(envs) == 0 {
		return nil
	}
	size := 0
	for _, e := range envs {
		size += len(e.GetKey()) + 1 + len(e.GetValue())
	}
	// All in one piece, of which each is a part: containers have many.
	var text strings.Builder
	text.Grow(size)
	out := make([]string, len(envs))
	for i, e := range envs {
		begin := text.Len()
		text.WriteString(e.GetKey())
		text.WriteByte('=')
		text.Write(e.GetValue())
		out[i] = text.String()[begin:]
	}
	return out
}
