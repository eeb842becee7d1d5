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

// Target is a container of a pod, or the pod if Container is empty.
type Target struct {
	Namespace, Pod string
	// UID, if not empty, must be the UID of the pod or of its mirror pod.
	UID       types.UID
	Container string
}

// TargetOf returns the target of a request, from the wildcards {namespace}, {pod}, {uid} and
// {container} of its http.ServeMux pattern. Use it in an agent's further routes.
func TargetOf(r *http.Request) Target {
	return Target{
		Namespace: r.PathValue("namespace"), Pod: r.PathValue("pod"),
		UID: types.UID(r.PathValue("uid")), Container: r.PathValue("container"),
	}
}

// Container is a running container.
type Container struct {
	// ID is the runtime's ID, without the runtime's name as prefix.
	ID string
	// TTY is true if the container's spec has a terminal.
	TTY bool
}

// Pods finds containers, sandboxes and logs. Its methods are called concurrently and should return
// from memory. For an absent object they return a *Refusal with http.StatusNotFound, for an
// invalid request one with http.StatusBadRequest. Refuse writes their errors. podsyncer.Syncer
// implements Pods.
type Pods interface {
	// RunningContainer returns the running instance of a container.
	RunningContainer(ctx context.Context, t Target) (Container, error)
	// RunningSandbox returns the ID of the pod's newest sandbox if it is running.
	RunningSandbox(ctx context.Context, t Target) (id string, err error)
	// Log returns the log of a container's newest instance, or of the instance before it with
	// previous.
	Log(ctx context.Context, t Target, previous bool) (logs.Log, error)
}

// LogReader is the Read method of logs.Reader, which documents it.
type LogReader interface {
	Read(ctx context.Context, log logs.Log, o logs.Options, stdout, stderr io.Writer) error
}

// Refusal is an error with an HTTP status.
type Refusal struct {
	// Code is the status, from 400 to 599. Another value has no effect.
	Code int
	// Message is the text for the client.
	Message string
}

// Error returns Message.
func (r *Refusal) Error() string { return r.Message }

// Refuse writes err with its status: the Code of a *Refusal, wrapped or not, 404 for the runtime's
// NotFound, else 500.
func Refuse(w http.ResponseWriter, err error) {
	other := http.StatusInternalServerError
	if cri.IsNotFound(err) {
		other = http.StatusNotFound
	}
	http.Error(w, err.Error(), statusOf(err, other))
}

// statusOf returns the Code of a *Refusal, wrapped or not, if it is the status of an error, else
// other.
func statusOf(err error, other int) int {
	var r *Refusal
	if errors.As(err, &r) && r != nil && r.Code >= 400 && r.Code < 600 {
		return r.Code
	}
	return other
}

// badRequest returns a Refusal of an invalid request.
func badRequest(message string) error { return &Refusal{Code: http.StatusBadRequest, Message: message} }

// Query parameters are parsed as the API server parses its own options. The first of several
// values counts, and an empty value means unset. A switch is off only if its value is "false" or
// "0".

// flag reports whether a switch is on.
func flag(query url.Values, name string) bool {
	values, given := query[name]
	return given && (len(values) == 0 || (values[0] != "false" && values[0] != "0"))
}

// number parses a whole number that is at least least. It returns nil if the parameter is unset.
func number(query url.Values, name string, least int64) (*int64, error) {
	text := query.Get(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least {
		return nil, badRequest(fmt.Sprintf("%s: %.40q is not a whole number from %d to %d", name, text, least, int64(math.MaxInt64)))
	}
	return &n, nil
}

// seconds parses a number of seconds. Larger values are reduced to the longest Duration.
func seconds(query url.Values, name string) (time.Duration, error) {
	n, err := number(query, name, 1)
	if n == nil {
		return 0, err
	}
	return time.Duration(min(*n, int64(math.MaxInt64/time.Second))) * time.Second, nil
}

func timestamp(query url.Values, name string) (time.Time, error) {
	text := query.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, badRequest(fmt.Sprintf("%s: %.60q is not a time such as 2006-01-02T15:04:05Z", name, text))
	}
	return t, nil
}
