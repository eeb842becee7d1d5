package probe

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Type is what a probe is for.
type Type int8

// The types of probes.
const (
	// Liveness tells whether a container works; one that does not is restarted.
	Liveness Type = iota
	// Readiness tells whether a container can serve.
	Readiness
	// Startup tells whether a container has started; before, its other probes do
	// not run, and one that does not start is restarted.
	Startup
)

var typeNames = [...]string{"Liveness", "Readiness", "Startup"}

// String returns the name by which metrics and events call the type.
func (t Type) String() string { return nameOf(typeNames[:], "Type", int(t)) }

// Handler is the way in which a probe asks, named as in the pod's spec.
type Handler string

// The handlers.
const (
	Exec      Handler = "exec"
	HTTPGet   Handler = "httpGet"
	TCPSocket Handler = "tcpSocket"
	GRPC      Handler = "grpc"
)

// HandlerOf returns the handler of a probe: the first that is set, "" if none is.
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

// Verdict is what a probe found.
type Verdict int8

// The verdicts.
const (
	// Unknown means that nothing is known. It is never taken for success; a
	// Prober that returns it without an error has found a failure.
	Unknown Verdict = iota
	// Success means that the container passed.
	Success
	// Warning means that it passed in a way that people should look at: it counts
	// as a success and becomes an event. Stored results never are Warnings.
	Warning
	// Failure means that the container did not pass.
	Failure
)

var verdictNames = [...]string{"Unknown", "Success", "Warning", "Failure"}

// String returns the verdict's name.
func (v Verdict) String() string { return nameOf(verdictNames[:], "Verdict", int(v)) }

// Result is the outcome of one execution.
type Result struct {
	// Verdict is what the probe found.
	Verdict Verdict
	// Output is for people: it becomes part of events and explanations. It is cut
	// to 10 KiB there, and must hold no secrets.
	Output string
}

// Target is what is to be probed. All of it is shared and must not be changed.
type Target struct {
	// Pod is the pod as it was when it was added.
	Pod *v1.Pod
	// Container is the container's spec: a regular container or a sidecar of Pod.
	Container *v1.Container
	// ContainerID is the instance that runs, "<runtime>://<id>" as in the pod's
	// status.
	ContainerID string
	// PodIP is where the pod can be reached, from the newest status: the host's
	// address for pods on the host's network. "" while it is not known.
	PodIP string
	// Probe is the spec of the probe with its defaults filled in.
	Probe *v1.Probe
	// Type is what the probe is for.
	Type Type
	// Timeout is how long one execution may take. The context ends then, too;
	// this is for Probers that tell a server about it.
	Timeout time.Duration
}

// Prober executes probes of one Handler.
//
// Probe asks once and returns what it found. It must return soon after ctx ends,
// which it does after Target.Timeout, when the pod is removed, and when the
// Manager stops; the Manager reads nothing from a call after that but whether it
// has ended. A container that did not answer in time has failed: that is a
// Failure, not an error.
//
// An error means that the probe could not be carried out, so that nothing was
// learned: the runtime did not answer, a named port does not exist. The result is
// discarded then. Errors are tried again at once, three times altogether, and
// then at the next period.
//
// Probe is called concurrently, but never twice at a time for one probe of one
// container. A panic counts as an error.
type Prober interface {
	Probe(ctx context.Context, t Target) (Result, error)
}

// ProberFunc is a function that is a Prober.
type ProberFunc func(ctx context.Context, t Target) (Result, error)

// Probe calls f.
func (f ProberFunc) Probe(ctx context.Context, t Target) (Result, error) { return f(ctx, t) }
