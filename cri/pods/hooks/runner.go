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

// ErrUnsupported is the cause of the failure of a handler that is of no known kind,
// or of one that no kubelet implements.
var ErrUnsupported = errors.New("unsupported lifecycle handler")

// maxOutput is how many bytes of a handler's output, or of a response, are read.
const maxOutput = 10 << 10

// version is the Kubernetes version whose behaviour this package has.
const version = "1.36"

// Config configures a Runner. Exec is required.
type Config struct {
	// Exec runs commands in containers. Required. A cri.RuntimeService is one.
	Exec cri.Execer
	// PodIPs returns the addresses that a pod has now, the primary one first. It
	// is asked for each httpGet handler that names no host, and looks at the
	// runtime rather than at a status that may be out of date: at the time of
	// postStart a pod's addresses are seconds old. nil: such handlers fail.
	PodIPs func(ctx context.Context, pod *v1.Pod) ([]string, error)
	// dialContext connects to where requests go; nil means the network, without
	// any proxy.
	dialContext func(ctx context.Context, network, address string) (net.Conn, error)

	// Event records Kubernetes events; nil records none.
	Event podwright.EventFunc
	// Metrics is told what is worth counting; zero counts nothing.
	Metrics Metrics
}

// Metrics are called when something happens that is worth counting. Each may be
// nil. They must not block and may be called at the same time.
type Metrics struct {
	// OnHTTPFallback counts https handlers that were answered with plain HTTP and
	// succeeded when asked so: lifecycle_handler_http_fallbacks_total.
	OnHTTPFallback func()
	// OnSleepTerminatedEarly counts sleeps that were cut short:
	// sleep_action_terminated_early_total.
	OnSleepTerminatedEarly func()
}

// Runner runs lifecycle handlers. It is safe for concurrent use.
type Runner struct {
	cfg    Config
	client *http.Client
}

// New checks the configuration and returns a Runner.
func New(cfg Config) (*Runner, error) {
	if err := fields.Required("hooks: Config.Exec", cfg.Exec); err != nil {
		return nil, err
	}
	fields.Default(&cfg.Event, func(v1.ObjectReference, string, string, string) {})
	fields.Default(&cfg.Metrics.OnHTTPFallback, func() {})
	fields.Default(&cfg.Metrics.OnSleepTerminatedEarly, func() {})
	return &Runner{cfg: cfg, client: newClient(cfg.dialContext)}, nil
}

// Run runs a handler of a container and returns what there is to read of it, at
// most 10 KiB: the output of a command, the beginning of a response. id is the
// container's ID in the runtime, without the runtime's name. Of pod and container
// the names, the UID and the ports are used, and they are not changed.
//
// It fails when a command fails (errors.As finds the *cri.ExitError), when there is
// no response (of whatever status), when ctx ends first (errors.Is finds its error and
// its cause), and when the handler is none that can be run (ErrUnsupported).
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

// run also tells of what kind the handler is.
func (r *Runner) run(ctx context.Context, pod *v1.Pod, container *v1.Container, id string, handler *v1.LifecycleHandler) (kind, output string, err error) {
	switch {
	case handler == nil:
		return "lifecycle", "", fmt.Errorf("%w: there is none", ErrUnsupported)
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
		return "tcpSocket", "", fmt.Errorf("%w: tcpSocket is part of the API, but never ran anywhere", ErrUnsupported)
	default:
		return "lifecycle", "", fmt.Errorf("%w: none of exec, httpGet and sleep is set", ErrUnsupported)
	}
}

// exec runs a command. It may take until ctx ends.
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

// sleep waits for as many seconds as the handler says, which may be none. An end of
// ctx on the way is an error: the time that was asked for has not passed.
func (r *Runner) sleep(ctx context.Context, action *v1.SleepAction) error {
	if action.Seconds < 0 {
		return fmt.Errorf("%w: sleep.seconds is negative: %d", ErrUnsupported, action.Seconds)
	}
	// A wish for more than a Duration holds is one for ever.
	const longest = int64(1<<63-1) / int64(time.Second)
	if !run.Sleep(ctx, time.Duration(min(action.Seconds, longest))*time.Second) {
		r.cfg.Metrics.OnSleepTerminatedEarly()
		return fmt.Errorf("ended before its %d s were over: %w", action.Seconds, ctx.Err())
	}
	return nil
}
