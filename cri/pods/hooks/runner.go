package hooks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

// ErrUnsupported is the cause for handlers of an unknown kind, and of a kind that no kubelet
// implements.
var ErrUnsupported = errors.New("unsupported lifecycle handler")

// maxOutput bounds the bytes read from a handler's output or response.
const maxOutput = 10 << 10

// version is the Kubernetes version that this package reproduces.
const version = "1.36"

// Config configures a Runner. Exec is required.
type Config struct {
	// Exec runs commands in containers. A cri.RuntimeService implements it. Required.
	Exec cri.Execer
	// PodIPs returns the current addresses of a pod, the primary one first. It is called for each
	// httpGet handler without a host. It should read from the runtime, because at postStart the
	// pod's addresses are too new for the status. Optional: without it such handlers fail.
	PodIPs func(ctx context.Context, pod *v1.Pod) ([]string, error)
	// dialContext connects to the target of a request. Default: the network, without a proxy.
	dialContext func(ctx context.Context, network, address string) (net.Conn, error)

	// Event records Kubernetes events. Optional.
	Event podwright.EventFunc
	// Metrics are optional callbacks.
	Metrics Metrics
}

// Metrics are callbacks for counters. Each is optional. They are called concurrently and must not
// block.
type Metrics struct {
	// OnHTTPFallback is called for each https handler that succeeded over plain HTTP:
	// lifecycle_handler_http_fallbacks_total.
	OnHTTPFallback func()
	// OnSleepTerminatedEarly is called for each interrupted sleep:
	// sleep_action_terminated_early_total.
	OnSleepTerminatedEarly func()
}

// Runner runs lifecycle handlers. It is safe for concurrent use.
type Runner struct {
	cfg    Config
	client *http.Client
}

// New validates the configuration and returns a Runner.
func New(cfg Config) (*Runner, error) {
	if err := fields.Required("hooks: Config.Exec", cfg.Exec); err != nil {
		return nil, err
	}
	fields.Default(&cfg.Event, func(v1.ObjectReference, string, string, string) {})
	fields.Default(&cfg.Metrics.OnHTTPFallback, func() {})
	fields.Default(&cfg.Metrics.OnSleepTerminatedEarly, func() {})
	return &Runner{cfg: cfg, client: newClient(cfg.dialContext)}, nil
}

// Run runs a handler of a container and returns at most 10 KiB of output: the output of a
// command, or the beginning of a response. id is the container's ID in the runtime, without the
// runtime's name. Of pod and container, Run uses the names, the UID and the ports. It does not
// change them.
//
// Run fails if a command fails (errors.As finds the *cri.ExitError), if there is no response (a
// response of any status is a success), if ctx is done first (errors.Is finds its error and
// cause), and if the handler is not supported (ErrUnsupported).
func (r *Runner) Run(ctx context.Context, pod *v1.Pod, container *v1.Container, id string, handler *v1.LifecycleHandler) (string, error) {
	kind, output, err := r.run(ctx, pod, container, id, handler)
	if err == nil {
		return output, nil
	}
	if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		err = fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	return output, fmt.Errorf("%s handler of container %s: %w", kind, container.Name, err)
}

// run also returns the kind of the handler.
func (r *Runner) run(ctx context.Context, pod *v1.Pod, container *v1.Container, id string, handler *v1.LifecycleHandler) (kind, output string, err error) {
	switch {
	case handler == nil:
		return "lifecycle", "", fmt.Errorf("%w: nil handler", ErrUnsupported)
	case ctx.Err() != nil:
		return "lifecycle", "", ctx.Err()
	case handler.Exec != nil:
		output, err = r.exec(ctx, id, handler.Exec)
		return "exec", output, err
	case handler.HTTPGet != nil:
		output, err = r.get(ctx, pod, container, handler.HTTPGet)
		return "httpGet", output, err
	case handler.Sleep != nil:
		return "sleep", "", r.sleep(ctx, handler.Sleep)
	case handler.TCPSocket != nil:
		return "tcpSocket", "", fmt.Errorf("%w: the API accepts tcpSocket, but it is not implemented", ErrUnsupported)
	default:
		return "lifecycle", "", fmt.Errorf("%w: exec, httpGet or sleep is required", ErrUnsupported)
	}
}

// exec runs a command without a timeout of its own.
func (r *Runner) exec(ctx context.Context, id string, action *v1.ExecAction) (string, error) {
	stdout, stderr, err := r.cfg.Exec.ExecSync(ctx, id, action.Command, 0)
	return cut(stdout, stderr), err
}

// cut joins the beginnings of two streams to at most maxOutput bytes.
func cut(stdout, stderr []byte) string {
	stdout = stdout[:min(len(stdout), maxOutput)]
	stderr = stderr[:min(len(stderr), maxOutput-len(stdout))]
	return string(stdout) + string(stderr)
}

// sleep waits for the seconds of the handler, possibly 0. It returns an error if ctx is done
// earlier.
func (r *Runner) sleep(ctx context.Context, action *v1.SleepAction) error {
	if action.Seconds < 0 {
		return fmt.Errorf("%w: sleep.seconds is negative: %d", ErrUnsupported, action.Seconds)
	}
	// The longest possible Duration replaces a longer sleep.
	const longest = int64(1<<63-1) / int64(time.Second)
	if !run.Sleep(ctx, time.Duration(min(action.Seconds, longest))*time.Second) {
		r.cfg.Metrics.OnSleepTerminatedEarly()
		return fmt.Errorf("interrupted before %d s had passed: %w", action.Seconds, ctx.Err())
	}
	return nil
}
