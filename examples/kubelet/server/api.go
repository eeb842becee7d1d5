package server

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/kubeletapi"
)

// Pods executes requests about pods, except logs and sessions. It must be safe for concurrent use.
// Its errors are the errors of kubeletapi.Pods.
type Pods interface {
	// Run runs a command to its end and returns its output, also with an error.
	Run(ctx context.Context, t kubeletapi.Target, command []string) ([]byte, error)
	// Checkpoint writes a checkpoint of a running container (KEP-2008) and returns the path of its
	// file. The runtime applies the timeout; zero means its default.
	Checkpoint(ctx context.Context, t kubeletapi.Target, timeout time.Duration) (file string, err error)
	// RunningPods returns the running pods of the runtime: names, UIDs and running containers.
	RunningPods(ctx context.Context) ([]v1.Pod, error)
}
