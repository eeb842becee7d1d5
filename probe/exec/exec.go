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
	// maxOutput is how much of a command's output becomes part of a result.
	maxOutput = 10 << 10
	// defaultTimeout is that of a probe that has none: timeoutSeconds' default.
	defaultTimeout = time.Second
	defaultGrace   = 2 * time.Second
	// aliveTimeout bounds Config.Alive.
	aliveTimeout = time.Second
	// noSuchCommand is asked for to see whether the runtime gets to commands at all.
	noSuchCommand = "/no-such-command-podwright-asks-whether-exec-works"
)

// Runtime runs commands in containers.
type Runtime interface {
	// ExecSync runs a command to its end, and kills it when timeout has passed.
	// The container's ID is the runtime's own, without the runtime's name.
	//
	// Of a command that failed, errors.As finds an error with a method
	// ExitCode() int; of one that ran out of time, errors.Is finds
	// context.DeadlineExceeded, when timeout has passed. What it wrote is returned
	// in every case in which it is known. Every other error means that nothing is known of the command.
	// ExecSync returns soon after ctx ends. It is called concurrently.
	ExecSync(ctx context.Context, containerID string, command []string, timeout time.Duration) (stdout, stderr []byte, err error)
}

// Config configures a Prober. Runtime is required.
type Config struct {
	// Runtime runs the commands. Required.
	Runtime Runtime
	// Grace is how much longer than the probe's timeout the runtime may take, to
	// start a command and to kill it. Zero means 2 s.
	Grace time.Duration
	// Alive is asked when the runtime was silent for longer than that, along with the
	// runtime itself, for a command that does not exist. If that is answered within
	// Grace, in whatever way, and Alive returns nil within a second, it must be the
	// command of the probe that does not end: a failure, once it has had its timeout
	// again. Else, and if Alive is nil, that is an error: the runtime may hang, or
	// have too much to do. A cheap call to the runtime will do.
	Alive func(ctx context.Context) error
}

// Prober executes exec probes. It is safe for concurrent use.
type Prober struct {
	cfg Config
}

// New checks the configuration and returns a Prober.
func New(cfg Config) (*Prober, error) {
	f := fields.Of("exec: Config")
	f.Required("Runtime", cfg.Runtime)
	fields.Number(f, "Grace", &cfg.Grace, defaultGrace)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Prober{cfg: cfg}, nil
}

// Probe implements probe.Prober.
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
		return probe.Result{}, givenUp(ctx)
	}
	e := p.begin(ctx, id, command, wholeSeconds(t.Timeout))
	defer e.end()
	if !run.Wait(e.done, e.timeout+p.cfg.Grace) {
		return p.silence(ctx, e)
	}
	return e.verdict(ctx)
}

func givenUp(ctx context.Context) error {
	return fmt.Errorf("the probe was given up: %w", context.Cause(ctx))
}

// silence says what it means that the runtime has not answered until its time was over.
// Whoever is too busy to start a command does not start the next one either. If that
// is answered, the first one has begun as well, and has its time from now on at most.
func (p *Prober) silence(ctx context.Context, e *execution) (probe.Result, error) {
	silent := fmt.Errorf("the runtime was silent for %v after the command's timeout", p.cfg.Grace)
	if p.cfg.Alive == nil {
		return probe.Result{}, silent
	}
	err := p.works(e)
	switch {
	case e.ctx.Err() != nil:
		return probe.Result{}, givenUp(ctx)
	case err != nil:
		return probe.Result{}, fmt.Errorf("%w, and does not work: %w", silent, err)
	case run.Wait(e.done, e.timeout):
		return e.verdict(ctx)
	}
	return probe.Result{Verdict: probe.Failure, Output: fmt.Sprintf("the command did not end within %v, and could not be ended", e.timeout)}, nil
}

// works tells why the runtime seems not to get to a command, nil if it does.
func (p *Prober) works(e *execution) error {
	short, cancel := context.WithTimeout(e.ctx, p.cfg.Grace)
	defer cancel()
	// What it answers does not matter, as long as it does.
	_, _, err := p.cfg.Runtime.ExecSync(short, e.id, []string{noSuchCommand}, defaultTimeout)
	if short.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("another command was not even refused: %w", err)
	}
	alive, cancel := context.WithTimeout(e.ctx, aliveTimeout)
	defer cancel()
	return p.cfg.Alive(alive)
}

// wholeSeconds rounds a timeout up to what the CRI can say.
func wholeSeconds(timeout time.Duration) time.Duration {
	if timeout <= 0 {
		return defaultTimeout
	}
	if whole := timeout.Truncate(time.Second); whole < timeout {
		return whole + time.Second
	}
	return timeout
}

// expand replaces the references of a command to variables whose values are in the
// spec. The last variable of a name counts, as in the container; one whose value
// comes from elsewhere is not known here. Together they may be no more than a
// process can be started with.
func expand(container *v1.Container, command []string) ([]string, error) {
	values := map[string]string{}
	room := podfacts.MaxExecTotal
	lookup := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	bounded := func(text string) (string, error) {
		out, ok := podfacts.Expand(text, min(room, podfacts.MaxExecString), lookup)
		if !ok {
			return "", errors.New("exec.command: it or the container's variables expand to more than a process can be started with")
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

// cut joins what came before and the beginnings of two streams, which together
// are at most maxOutput bytes. Bytes that are no text become question marks.
func cut(before string, stdout, stderr []byte) string {
	stdout = stdout[:min(len(stdout), maxOutput)]
	stderr = stderr[:min(len(stderr), maxOutput-len(stdout))]
	return before + strings.ToValidUTF8(string(stdout), "?") + strings.ToValidUTF8(string(stderr), "?")
}
