// Package garbage removes what pods have left behind in a CRI runtime and on the disk: dead
// containers beyond those that are kept, dead sandboxes, the logs of pods that are
// gone, and links to logs that lead nowhere.
//
// A Collector goes over everything now and then (Collect), or over one pod: when a
// container of it has died (CleanDeadContainers), or when the pod is gone for good
// (RemovePod). What goes and what stays is decided by pure functions of what is there;
// whoever runs the pods carries it out:
//
//	manager, err := pods.New(...)
//	...
//	collector, err := garbage.New(garbage.Config{Runtime: runtime, Pods: manager})
//	...
//	err = collector.Collect(ctx, garbage.Request{SourcesReady: true, ContentRemovable: gone})
//
// Sandboxes and containers without a kubelet's labels are left alone.
package garbage

import (
	"context"
	"log/slog"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/internal/fields"
)

// Remover stops and removes single containers and sandboxes. What is gone already is
// no error.
type Remover interface {
	// StopContainer stops a container of which nobody knows whether it runs: with
	// gracefully as the container wants it, else as fast as any.
	StopContainer(ctx context.Context, pod labels.Pod, name, id string, gracefully bool) error
	// RemoveContainer removes a container with its files, but never one that runs:
	// that is ErrRunning.
	RemoveContainer(ctx context.Context, pod labels.Pod, name, id string) error
	// RemoveSandbox removes a sandbox, which is surely stopped before.
	RemoveSandbox(ctx context.Context, id string) error
}

// Pods is what garbage collection needs of whoever runs pods. A pods.Manager is one.
// Its methods are safe for concurrent use.
type Pods interface {
	Remover
	// Files tells where the files of pods are.
	Files() podfiles.Layout
	// Retain drops what is remembered of all sandboxes and containers but those
	// that exist, by ID.
	Retain(exists map[string]bool)
	// Forget drops what is remembered of a pod, which is gone for good.
	Forget(uid types.UID)
}

// Config configures a Collector. Runtime and Pods are required.
type Config struct {
	// Runtime is looked at. Required.
	Runtime observe.Runtime
	// Pods carries out what was decided. Required.
	Pods Pods
	// Logger is told of lists that do not fit into one reply; nil discards.
	Logger *slog.Logger
}

// Collector removes what pods have left behind. Its methods are safe for concurrent
// use; CleanDeadContainers and RemovePod of one pod are never called at the same time,
// nor while somebody else acts on the pod.
type Collector struct{ cfg Config }

// New checks the configuration and returns a Collector.
func New(cfg Config) (*Collector, error) {
	f := fields.Of("garbage: Config")
	f.Required("Runtime", cfg.Runtime)
	f.Required("Pods", cfg.Pods)
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Collector{cfg: cfg}, nil
}
