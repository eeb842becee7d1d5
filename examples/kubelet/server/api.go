package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/logs"
)

// Target names a container of a pod, or with an empty Container the pod.
type Target struct {
	Namespace, Pod string
	// UID, if not empty, has to be the pod's, or that of its mirror pod.
	UID       types.UID
	Container string
}

// Streams are those of a command, as the client has asked for them.
type Streams struct {
	// Command is what exec runs; attach has none.
	Command                    []string
	Stdin, Stdout, Stderr, TTY bool
}

// LogRequest says which log is read, and which part of it.
type LogRequest struct {
	// Previous asks for the instance of the container before the one that runs.
	Previous bool
	logs.Options
}

// Pods reaches into the pods of a node. Its methods are called by many goroutines at a
// time. What is not there is a *Refusal with http.StatusNotFound, what cannot be asked for
// one with http.StatusBadRequest; every other error is the node's own fault.
type Pods interface {
	// Logs writes what a container has written, and with Follow what it writes, until
	// the container has stopped or ctx ends. A nil writer does not want its stream.
	// Nothing is written before it is known that there is a log.
	Logs(ctx context.Context, t Target, r LogRequest, stdout, stderr io.Writer) error
	// Exec, Attach and PortForward ask the runtime for a session, and return the URL at
	// which it is served. Attach decides by the container's spec whether it has a terminal.
	Exec(ctx context.Context, t Target, s Streams) (*url.URL, error)
	Attach(ctx context.Context, t Target, s Streams) (*url.URL, error)
	PortForward(ctx context.Context, t Target, ports []int32) (*url.URL, error)
	// Run runs a command to its end, and returns what it has written, also with an error.
	Run(ctx context.Context, t Target, command []string) ([]byte, error)
	// Checkpoint writes a checkpoint of a running container (KEP-2008) and returns its
	// file. The timeout is the runtime's; zero means its default.
	Checkpoint(ctx context.Context, t Target, timeout time.Duration) (file string, err error)
	// RunningPods are what the runtime runs: names, UIDs and the running containers.
	RunningPods(ctx context.Context) ([]v1.Pod, error)
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

// refuse answers with an error: 500 unless it brings a status.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if r := new(*Refusal); errors.As(err, r) {
		code = (*r).Code
	}
	http.Error(w, err.Error(), code)
}

// bad is the refusal of a request that cannot be.
func bad(message string) error { return &Refusal{Code: http.StatusBadRequest, Message: message} }

// target is what a path names.
func target(r *http.Request) Target {
	return Target{
		Namespace: r.PathValue("namespace"), Pod: r.PathValue("pod"),
		UID: types.UID(r.PathValue("uid")), Container: r.PathValue("container"),
	}
}
