package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

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

// The words of a query are read as the API server reads those of its own options: of
// several values the first counts, an empty one is none, but for switches, where only
// "false" and "0" are off.

// flag tells whether a switch is on.
func flag(query url.Values, name string) bool {
	values, given := query[name]
	return given && (len(values) == 0 || (values[0] != "false" && values[0] != "0"))
}

// number reads a whole number of at least so much; nil if there is none.
func number(query url.Values, name string, least int64) (*int64, error) {
	text := query.Get(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least {
		return nil, bad(fmt.Sprintf("%s: %.40q is not a whole number from %d to %d", name, text, least, int64(math.MaxInt64)))
	}
	return &n, nil
}

// seconds reads a number of seconds; what is longer than a Duration counts as its longest.
func seconds(query url.Values, name string) (time.Duration, error) {
	n, err := number(query, name, 1)
	if n == nil {
		return 0, err
	}
	return time.Duration(min(*n, int64(math.MaxInt64/time.Second))) * time.Second, nil
}

func moment(query url.Values, name string) (time.Time, error) {
	text := query.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, bad(fmt.Sprintf("%s: %.60q is not a time such as 2006-01-02T15:04:05Z", name, text))
	}
	return t, nil
}
