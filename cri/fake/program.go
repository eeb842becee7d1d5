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

// A Program is the code of a container: it gets arguments, environment, standard streams and
// signals in its Process and returns the exit code.
//
// The context ends when the program is killed: by SIGKILL, or by another signal whose default
// action is to terminate if the program has not called Process.Signals. The exit code is then 128
// plus the signal's number, regardless of the returned value. A program that does not return within
// 10 seconds of its context's end is abandoned: its container counts as killed, and Close names it.
//
// A panic, or a call of runtime.Goexit, is exit code 2; the panic is written to standard error. It
// does not affect the process of the runtime. This applies to the goroutine of the Program only: a
// panic in a goroutine that it started ends the process, as always in Go.
type Program func(ctx context.Context, p *Process) int

// A Resolver returns the program for a container that is about to start, or for a command of
// ExecSync or an exec session. It is called concurrently.
//
// An error, a panic or a nil Program fails StartContainer as a missing executable does in a real
// runtime: code Unknown, and the container exits with code 128 and reason StartError. A
// StartFailure changes code and reason. A returned Program always runs, possibly with an ended
// context, so a Resolver may acquire resources that the Program releases. The context belongs to
// the call and also ends with the runtime (see Runtime.Stop); a Resolver must return then.
type Resolver func(ctx context.Context, p *Process) (Program, error)

// ErrNotFound is returned by the Resolvers of this package for unknown commands. Its text is the
// same as in real runtimes.
var ErrNotFound = errors.New("executable file not found in $PATH")

// ErrPermission is for Resolvers, for a command that cannot be executed. Its text is the same as in
// real runtimes; see ErrNotFound.
var ErrPermission = errors.New("permission denied")

// SleepUntilStopped is a program that waits until it is killed. It does not handle signals, so an
// ordinary stop ends it at once with exit code 143.
func SleepUntilStopped(ctx context.Context, _ *Process) int {
	<-ctx.Done()
	return 0
}

// Exit returns a program that ends at once with the given exit code.
func Exit(code int) Program {
	return func(context.Context, *Process) int { return code }
}

// KilledBy returns a program that dies at once of a signal that it caused itself, such as SIGSEGV:
// its exit code is 128 plus the signal's number.
func KilledBy(signal syscall.Signal) Program { return Exit(128 + int(signal)) }

// OutOfMemory is a program that the kernel kills at once for lack of memory: exit code 137 and
// reason OOMKilled.
func OutOfMemory(_ context.Context, p *Process) int {
	p.OOMKilled()
	return 128 + int(sigKill)
}

// Always returns a Resolver that returns program for every container and command.
func Always(program Program) Resolver {
	return func(context.Context, *Process) (Program, error) { return program, nil }
}

// ByCommand selects by the first word of the command line, which is "" for a container without
// command and arguments. Commands that are not in the map get otherwise, or ErrNotFound if it is
// nil.
func ByCommand(programs map[string]Program, otherwise Program) Resolver {
	return choose(programs, otherwise, commandName)
}

func commandName(p *Process) string {
	if len(p.Args) == 0 {
		return ""
	}
	return p.Args[0]
}

// ByContainer selects by the container's name in its CRI metadata. Containers that are not in the
// map get otherwise, or ErrNotFound if it is nil.
func ByContainer(programs map[string]Program, otherwise Program) Resolver {
	return choose(programs, otherwise, func(p *Process) string { return p.Container.Name })
}

// ByImage selects by the image as the pod names it. Tag and registry may be missing in both:
// "busybox" is "docker.io/library/busybox:latest". Images that are not in the map get otherwise, or
// ErrNotFound if it is nil.
func ByImage(programs map[string]Program, otherwise Program) Resolver {
	whole := make(map[string]Program, len(programs))
	for image, program := range programs {
		whole[wholeImage(image)] = program
	}
	return choose(whole, otherwise, func(p *Process) string { return wholeImage(p.Container.Image) })
}

func wholeImage(name string) string {
	if whole, err := normalize(name); err == nil && !isDigest(name) {
		return whole
	}
	return name
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

// A Process is the environment of a Program. The program owns it; changes have no effect on the
// container.
type Process struct {
	// Container and Pod identify the container. Exec is true for a command of ExecSync or exec, and
	// false for the container's own process.
	Container ContainerIdentity
	Pod       PodIdentity
	Exec      bool

	// Args is the command line: command and args of the container, or the command of ExecSync.
	Args []string
	// Env has entries "NAME=value", in the order of the container's config.
	Env []string
	// Dir is the container's working directory, or "" if its config has none.
	Dir string
	// Mounts are the container's bind mounts. See HostPath.
	Mounts []Mount

	// Stdin is the input of attached clients, if the container's config has stdin, or of an exec
	// client. Otherwise it is empty, as a NoInput. It also ends when the program is killed.
	Stdin io.Reader
	// Stdout and Stderr go to the container's log and its attached clients, or to the caller of
	// ExecSync or exec. They are safe for concurrent use and fail after the exit. A client that
	// does not read blocks them.
	Stdout, Stderr io.Writer
	// TTY is true if the program is to have a terminal. The terminal is not emulated: input is not
	// echoed and output not translated. But Stdout and Stderr are one stream, and Resize has its
	// sizes.
	TTY bool
	// Resize delivers the newest size of the terminal, as SIGWINCH does. It is never closed. It is
	// nil without TTY.
	Resize <-chan TerminalSize

	task *task
}

// NoInput is an empty standard input. See Process.Stdin.
type NoInput struct{}

// Read returns io.EOF.
func (NoInput) Read([]byte) (int, error) { return 0, io.EOF }

// ContainerIdentity identifies a container.
type ContainerIdentity struct {
	// ID is the runtime's ID of the container.
	ID string
	// Name and Attempt come from the CRI metadata; Attempt is the number of restarts.
	Name    string
	Attempt uint32
	// Image is the image name in the pod, or in the config of a container without one.
	Image string
}

// PodIdentity identifies the pod of a container.
type PodIdentity struct {
	// SandboxID is the runtime's ID of the pod's sandbox.
	SandboxID string
	// Name, Namespace and UID come from the sandbox's CRI metadata.
	Name, Namespace, UID string
	// Hostname is the host name in the sandbox's config. It is "" on the host's network.
	Hostname string
	// IPs are the sandbox's addresses. There are none on the host's network.
	IPs []string
}

// A Mount is a bind mount of a container.
type Mount struct {
	// ContainerPath is the path in the container, HostPath the path on the host.
	ContainerPath, HostPath string
	// Readonly is true if the container must not write to the mount.
	Readonly bool
}

// Signals returns the channel of the program's signals, and makes the program handle them: as with
// a handler in an ordinary process, signals except SIGKILL lose their default action. SIGTERM
// terminates a program that never calls it. All calls return the same channel. It buffers 16
// signals; further ones are dropped. It is never closed.
func (p *Process) Signals() <-chan syscall.Signal { return p.task.handleSignals() }

// OOMKilled marks the container as out of memory: after its exit the reason is OOMKilled, with any
// exit code. Real containers exit with 137.
func (p *Process) OOMKilled() { p.task.markOOM() }

// Explain sets the reason and the message of the exited container, instead of Completed, Error or
// OOMKilled. With an empty reason the runtime's own one stays. It has no effect on a command of
// ExecSync.
func (p *Process) Explain(reason, message string) {
	p.task.mu.Lock()
	defer p.task.mu.Unlock()
	p.task.reason, p.task.message = reason, message
}

// Getenv returns the value of an environment variable, or "" if it is not set.
func (p *Process) Getenv(name string) string {
	value, _ := p.LookupEnv(name)
	return value
}

// LookupEnv returns the value of an environment variable and whether it is set. The last variable
// of a name applies.
func (p *Process) LookupEnv(name string) (string, bool) {
	for i := len(p.Env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(p.Env[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// HostPath translates an absolute path in the container to the host through the deepest mount that
// contains it. Containers of the fake have no filesystem of their own: it returns false for paths
// outside of mounts.
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
	// All variables are parts of one string, because containers have many.
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
