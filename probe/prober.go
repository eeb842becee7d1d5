package probe

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Type is the purpose of a probe.
type Type int8

// The types of probes.
const (
	// Liveness checks whether a container works. A failure restarts it.
	Liveness Type = iota
	// Readiness checks whether a container can serve.
	Readiness
	// Startup checks whether a container has started. Its other probes wait for that. A failure
	// restarts it.
	Startup
)

var typeNames = [...]string{"Liveness", "Readiness", "Startup"}

// String returns the type's name in metrics and events.
func (t Type) String() string { return nameOf(typeNames[:], "Type", int(t)) }

// Handler is the kind of check of a probe, with the name of its field in the pod's spec.
type Handler string

// The handlers.
const (
	Exec      Handler = "exec"
	HTTPGet   Handler = "httpGet"
	TCPSocket Handler = "tcpSocket"
	GRPC      Handler = "grpc"
)

// HandlerOf returns the first handler that is set in p, or "".
func HandlerOf(p *v1.Probe) Handler {
	switch {
	case p == nil:
		return ""
	case p.Exec != nil:
		return Exec
	case p.HTTPGet != nil:
		return HTTPGet
	case p.TCPSocket != nil:
		return TCPSocket
	case p.GRPC != nil:
		return GRPC
	default:
		return ""
	}
}

// Verdict is the outcome of a probe.
type Verdict int8

// The verdicts.
const (
	// Unknown means an unknown outcome. It never counts as success. A Prober that returns it
	// without an error reports a failure.
	Unknown Verdict = iota
	// Success means that the container passed.
	Success
	// Warning means that the container passed with a problem that needs attention: it counts as a
	// success and causes an event. Stored results are never Warnings.
	Warning
	// Failure means that the container did not pass.
	Failure
)

var verdictNames = [...]string{"Unknown", "Success", "Warning", "Failure"}

// String returns the verdict's name.
func (v Verdict) String() string { return nameOf(verdictNames[:], "Verdict", int(v)) }

// Result is the outcome of one execution.
type Result struct {
	Verdict Verdict
	// Output is a text for people, truncated to 10 KiB in events and to 256 bytes in
	// explanations. It must not contain secrets.
	Output string
}

// Target is the container to probe. All of it is shared and must not be changed.
type Target struct {
	// Pod is the pod at the time it was added.
	Pod *v1.Pod
	// Container is the container's spec: a regular container or a sidecar of Pod.
	Container *v1.Container
	// ContainerID is the ID of the running instance, "<runtime>://<id>" as in the pod's status.
	ContainerID string
	// PodIP is the pod's address in the newest status, or the host's address for pods on the host
	// network. It is "" before the address is available.
	PodIP string
	// Probe is the spec of the probe with defaults.
	Probe *v1.Probe
	Type  Type
	// Timeout bounds one call of Probe. The context has the same deadline; this field is for
	// Probers that pass the timeout to a server.
	Timeout time.Duration
}

// Prober executes probes of one Handler.
//
// Probe executes one check and returns its outcome. It must return soon after ctx is done: after
// Target.Timeout, when the pod is removed, or when the Manager stops. The Manager discards the
// result of a call cancelled for one of the last two reasons. A container that does not respond
// in time is a Failure, not an error.
//
// An error means that the probe could not be carried out, for example because the runtime did
// not respond or a named port does not exist. The Result is then discarded. After an error the
// probe is retried at once, up to three tries in total, each with the full timeout, and then at
// the next period.
//
// Probe is called concurrently, but never concurrently for one probe of one container. A panic
// counts as an error, but is not retried at once.
type Prober interface {
	Probe(ctx context.Context, t Target) (Result, error)
}

// ProberFunc is a function that implements Prober.
type ProberFunc func(ctx context.Context, t Target) (Result, error)

// Probe calls f.
func (f ProberFunc) Probe(ctx context.Context, t Target) (Result, error) { return f(ctx, t) }
