// Package garbage removes leftovers of pods from a CRI runtime and the disk for an agent: excess
// dead containers, dead sandboxes, logs of removed pods, and dangling links to logs.
//
// A Collector collects the garbage of all pods (Collect) or of one: after a container has died
// (CleanDeadContainers), or after the pod was removed for good (RemovePod). Pure functions make
// the decisions; Config.Pods carries out the removals:
//
//	manager, err := pods.New(...)
//	...
//	collector, err := garbage.New(garbage.Config{Runtime: runtime, Pods: manager})
//	...
//	err = collector.Collect(ctx, garbage.Request{SourcesReady: true, ContentRemovable: gone})
//
// A Collector is safe for concurrent use, with the exceptions in its documentation. Sandboxes and
// containers of other owners, and those without a kubelet's labels, are not touched.
package garbage

import (
	"context"
	"log/slog"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/internal/fields"
)

// Remover stops and removes single containers and sandboxes. Each method succeeds if the object
// no longer exists.
type Remover interface {
	// StopContainer stops a container in unknown state: with gracefully as the container's
	// annotations require, otherwise with the shortest grace period.
	StopContainer(ctx context.Context, pod labels.Pod, name, id string, gracefully bool) error
	// RemoveContainer removes a container with its files. It returns ErrRunning for a running
	// container.
	RemoveContainer(ctx context.Context, pod labels.Pod, name, id string) error
	// RemoveSandbox stops a sandbox, if necessary, and removes it.
	RemoveSandbox(ctx context.Context, id string) error
}

// Pods is the part of a pod manager that garbage collection uses. A pods.Manager implements it.
// Implementations must be safe for concurrent use.
type Pods interface {
	Remover
	// Files returns the layout of pods' files. Its Owner owns the pods; foreign pods stay.
	Files() podfiles.Layout
	// Retain drops the state of all sandboxes and containers except those in exists, by ID.
	Retain(exists map[string]bool)
	// Forget drops the state of a pod that was removed for good.
	Forget(uid types.UID)
}

// Config configures a Collector. Runtime and Pods are required.
type Config struct {
	// Runtime lists sandboxes and containers. Required.
	Runtime observe.Runtime
	// Pods carries out the removals. Required.
	Pods Pods
	// Logger receives a warning when a list does not fit into one reply. Default: discard.
	Logger *slog.Logger
}

// Collector removes leftovers of pods. It is safe for concurrent use. For one pod, however,
// CleanDeadContainers and RemovePod must not run at the same time, nor while another action on
// the pod is running.
type Collector struct{ cfg Config }

func (c *Collector) owner() cri.Owner { return c.cfg.Pods.Files().Owner }

// New validates the configuration and returns a Collector.
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
