package kubeletapi

import (
	"context"
	"errors"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/logs"
)

// Target names a container of a pod, or with an empty Container the pod.
type Target struct {
	Namespace, Pod string
	// UID, if not empty, has to be the pod's, or that of its mirror pod.
	UID       types.UID
	Container string
}

// TargetOf is what a path names, by the wildcards namespace, pod, uid and container of
// the pattern that it was routed by.
func TargetOf(r *http.Request) Target {
	return Target{
		Namespace: r.PathValue("namespace"), Pod: r.PathValue("pod"),
		UID: types.UID(r.PathValue("uid")), Container: r.PathValue("container"),
	}
}

// Container is a running container.
type Container struct {
	// ID is the runtime's, without its name in front.
	ID string
	// TTY tells whether it has a terminal, as its spec says: what attach has to know.
	TTY bool
}

// Pods tells which container of the runtime is meant. Its methods are called by many
// goroutines at a time, and should answer from memory. What is not there is a *Refusal
// with http.StatusNotFound, what cannot be asked for one with http.StatusBadRequest;
// every other error is the node's own fault. podsyncer.Syncer is a Pods.
type Pods interface {
	// RunningContainer returns the instance of a container that runs.
	RunningContainer(ctx context.Context, t Target) (Container, error)
	// RunningSandbox returns the ID of the newest sandbox of a pod if that runs.
	RunningSandbox(ctx context.Context, t Target) (id string, err error)
	// Log returns the log of a container's newest instance, or with previous that of
	// the one before.
	Log(ctx context.Context, t Target, previous bool) (logs.Log, error)
}

// LogReader is what is asked of a logs.Reader: its Read says more.
type LogReader interface {
	Read(ctx context.Context, log logs.Log, o logs.Options, stdout, stderr io.Writer) error
}

// Refusal is an error with an HTTP status of its own.
type Refusal struct {
	// Code is the HTTP status.
	Code int
	// Message is what the client is told.
	Message string
}

// Error is the message.
func (r *Refusal) Error() string { return r.Message }

// Refuse answers with an error: with the status of a *Refusal, 404 for what the runtime
// does not know (any more), else 500.
func Refuse(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if r := new(*Refusal); errors.As(err, r) {
		code = (*r).Code
	} else if cri.IsNotFound(err) {
		code = http.StatusNotFound
	}
	http.Error(w, err.Error(), code)
}

// bad is the refusal of a request that cannot be.
func bad(message string) error { return &Refusal{Code: http.StatusBadRequest, Message: message} }
