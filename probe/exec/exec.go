package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/probe"
)

const (
	// maxOutput is the maximum size, in bytes, of a command's output in a result.
	maxOutput = 10 << 10
	// defaultTimeout is the default of timeoutSeconds.
	defaultTimeout = time.Second
	defaultGrace   = 2 * time.Second
	aliveTimeout   = time.Second
	// noSuchCommand is a nonexistent command that checks whether the runtime executes commands.
	noSuchCommand = "/no-such-command-podwright-asks-whether-exec-works"
)

// Runtime runs commands in containers.
type Runtime interface {
	// ExecSync runs a command to its end, and kills it after timeout. containerID is the
	// runtime's ID, without the runtime's name.
	//
	// For a command that failed, errors.As must find an error with a method ExitCode() int. For a
	// command that exceeded the timeout, errors.Is must find context.DeadlineExceeded, once
	// timeout has passed. The output of the command is returned whenever it is available. After
	// every other error the outcome of the command is unknown. ExecSync must return soon after
	// ctx is done and must be safe for concurrent use.
	ExecSync(ctx context.Context, containerID string, command []string, timeout time.Duration) (stdout, stderr []byte, err error)
}

// Config configures a Prober. Runtime is required.
type Config struct {
	// Runtime runs the commands. Required.
	Runtime Runtime
	// Grace is the time beyond the probe's timeout that the runtime may need to start a command
	// and to kill it. Default: 2 s.
	Grace time.Duration
	// Alive checks the runtime after it has exceeded the timeout and Grace without a response.
	// The Prober also runs a nonexistent command. If the runtime responds to that within Grace,
	// and Alive returns nil within a second, the probe's command gets its timeout once more and
	// is then a failure. Otherwise, and if Alive is nil, the result is an error, because the
	// runtime may hang or be overloaded. Any cheap call of the runtime is sufficient.
	Alive func(ctx context.Context) error
}

// Prober executes exec probes. It is safe for concurrent use.
type Prober struct {
	cfg Config
}

// New returns a Prober. It returns an error for an invalid configuration.
func New(cfg Config) (*Prober, error) {
	f := fields.Of("exec: Config")
	f.Required("Runtime", cfg.Runtime)
	fields.Number(f, "Grace", &cfg.Grace, defaultGrace)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Prober{cfg: cfg}, nil
}

// Probe implements probe.Prober. A probe without an exec handler, or a malformed container ID, is
// an error.
func (p *Prober) Probe(ctx context.Context, t probe.Target) (probe.Result, error) {
	if t.Probe == nil || t.Probe.Exec == nil {
		return probe.Result{}, errors.New("the probe has no exec handler")
	}
	_, id, ok := strings.Cut(t.ContainerID, "://")
	if !ok || id == "" {
		return probe.Result{}, fmt.Errorf("container ID %q is not <runtime>://<id>", t.ContainerID)
	}
	command, err := expand(t.Container, t.Probe.Exec.Command)
	if err != nil {
		return probe.Result{}, err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return probe.Result{}, cancelledError(ctx)
	}
	e := p.begin(ctx, id, command, wholeSeconds(t.Timeout))
	defer e.end()
	if !run.Wait(e.done, e.timeout+p.cfg.Grace) {
		return p.unresponsive(ctx, e)
	}
	return e.verdict(ctx)
}

func cancelledError(ctx context.Context) error {
	return fmt.Errorf("the probe was cancelled: %w", context.Cause(ctx))
}

// unresponsive returns the result for a runtime that has not responded in time. An overloaded runtime
// does not start another command either. If it responds to the other command, the first command
// must have started, and gets its timeout from now on.
func (p *Prober) unresponsive(ctx context.Context, e *execution) (probe.Result, error) {
	errUnresponsive := fmt.Errorf("the runtime did not respond within %v after the command's timeout", p.cfg.Grace)
	if p.cfg.Alive == nil {
		return probe.Result{}, errUnresponsive
	}
	err := p.checkRuntime(e)
	switch {
	case e.ctx.Err() != nil:
		return probe.Result{}, cancelledError(ctx)
	case err != nil:
		return probe.Result{}, fmt.Errorf("%w, and a check of it failed: %w", errUnresponsive, err)
	case run.Wait(e.done, e.timeout):
		return e.verdict(ctx)
	}
	return probe.Result{Verdict: probe.Failure, Output: fmt.Sprintf("the command did not end within %v, and was not killed", e.timeout)}, nil
}

// checkRuntime returns nil if the runtime executes commands, or the reason for which it seems not to.
func (p *Prober) checkRuntime(e *execution) error {
	short, cancel := context.WithTimeout(e.ctx, p.cfg.Grace)
	defer cancel()
	// Any response is sufficient.
	_, _, err := p.cfg.Runtime.ExecSync(short, e.id, []string{noSuchCommand}, defaultTimeout)
	if short.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no response to another command: %w", err)
	}
	alive, cancel := context.WithTimeout(e.ctx, aliveTimeout)
	defer cancel()
	return p.cfg.Alive(alive)
}

// wholeSeconds rounds a timeout up to the precision of the CRI.
func wholeSeconds(timeout time.Duration) time.Duration {
	if timeout <= 0 {
		return defaultTimeout
	}
	if whole := timeout.Truncate(time.Second); whole < timeout {
		return whole + time.Second
	}
	return timeout
}

// expand expands the references of a command to variables with literal values in the spec. The
// last variable of a name applies, as in the container. A variable with another source is unknown
// and not expanded. The sum of the sizes is limited to the maximum of a process's arguments and
// environment.
func expand(container *v1.Container, command []string) ([]string, error) {
	values := map[string]string{}
	room := podfacts.MaxExecTotal
	lookup := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	bounded := func(text string) (string, error) {
		out, ok := podfacts.Expand(text, min(room, podfacts.MaxExecString), lookup)
		if !ok {
			return "", errors.New("exec.command: the command or the container's variables exceed the kernel's limit after expansion")
		}
		room -= len(out)
		return out, nil
	}
	for _, v := range container.Env {
		if v.ValueFrom != nil {
			delete(values, v.Name)
			continue
		}
		value, err := bounded(v.Value)
		if err != nil {
			return nil, err
		}
		values[v.Name] = value
	}
	out := make([]string, len(command))
	for i, text := range command {
		var err error
		if out[i], err = bounded(text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// cut joins before and the starts of two streams, which together have at most maxOutput bytes.
// Invalid UTF-8 becomes question marks.
func cut(before string, stdout, stderr []byte) string {
	stdout = stdout[:min(len(stdout), maxOutput)]
	stderr = stderr[:min(len(stderr), maxOutput-len(stdout))]
	return before + strings.ToValidUTF8(string(stdout), "?") + strings.ToValidUTF8(string(stderr), "?")
}
