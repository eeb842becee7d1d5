package server

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/kubeletapi"
)

// Pods is what is asked of the pods of a node besides logs and sessions. Its methods are
// called by many goroutines at a time. Their errors are those of kubeletapi.Pods.
type Pods interface {
	// Run runs a command to its end, and returns what it has written, also with an error.
	Run(ctx context.Context, t kubeletapi.Target, command []string) ([]byte, error)
	// Checkpoint writes a checkpoint of a running container (KEP-2008) and returns its
	// file. The timeout is the runtime's; zero means its default.
	Checkpoint(ctx context.Context, t kubeletapi.Target, timeout time.Duration) (file string, err error)
	// RunningPods are what the runtime runs: names, UIDs and the running containers.
	RunningPods(ctx context.Context) ([]v1.Pod, error)
}
