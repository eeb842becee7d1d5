package allocatable

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

// The reasons of events about the Node.
const (
	ReasonEnforced = "NodeAllocatableEnforced"
	ReasonFailed   = "FailedNodeAllocatableEnforcement"
)

// Period is how often Run gives the cgroup of all pods its values.
const Period = time.Minute

// Kernel is what is needed of the machine's cgroups. Set makes one that is not there,
// IsComplete tells whether it is.
type Kernel interface {
	Set(ctx context.Context, n cgroups.Name, v cgroups.Values) error
	IsComplete(n cgroups.Name) (bool, error)
}

// Config configures an Enforcer. Kernel, Tree and Capacity are required.
type Config struct {
	Kernel Kernel
	Tree   *cgroups.Tree
	// Capacity is what the machine has, with its processes (cgroups.ResourcePids).
	Capacity v1.ResourceList
	// System and Kube are what is reserved of it.
	System, Kube v1.ResourceList
	// Keys says what is enforced.
	Keys Keys
	// Event takes events about the Node. nil: nobody is told.
	Event func(eventtype, reason, message string)
}

// Enforcer keeps the values of the cgroups. Use New.
type Enforcer struct {
	cfg  Config
	pods cgroups.Values
	// told is how the last attempt at the cgroup of all pods has ended, "" for well; it
	// counts once tried is true.
	told  string
	tried bool
}

// New checks the configuration. Reservations of more than there is are an error that names
// the resource.
func New(cfg Config) (*Enforcer, error) {
	f := fields.Of("allocatable: Config")
	f.Required("Kernel", cfg.Kernel)
	f.Required("Tree", cfg.Tree)
	f.Required("Capacity", cfg.Capacity)
	fields.Default(&cfg.Event, func(_, _, _ string) {})
	if err := f.Err(); err != nil {
		return nil, err
	}
	if err := cfg.Keys.Check(); err != nil {
		return nil, fmt.Errorf("allocatable: %w", err)
	}
	left, err := cgroups.Without(cfg.Capacity, cfg.System, cfg.Kube)
	if err != nil {
		return nil, fmt.Errorf("allocatable: systemReserved, kubeReserved: %w", err)
	}
	if !cfg.Keys.has(Pods) {
		left = cfg.Capacity
	}
	return &Enforcer{cfg: cfg, pods: cgroups.ForNode(left)}, nil
}

// Values are those of the cgroup of all pods.
func (e *Enforcer) Values() cgroups.Values { return e.pods }

// Reserve gives the reserved cgroups their values. One that is not there, or cannot be
// changed, is an error: the agent is not to begin.
func (e *Enforcer) Reserve(ctx context.Context) error {
	keys := &e.cfg.Keys
	for _, r := range []struct {
		field, whole, weight, at string
		list                     v1.ResourceList
	}{
		{"systemReservedCgroup", System, SystemCompressible, keys.SystemCgroup, e.cfg.System},
		{"kubeReservedCgroup", Kube, KubeCompressible, keys.KubeCgroup, e.cfg.Kube},
	} {
		values := cgroups.ForNode(r.list)
		switch {
		case keys.has(r.whole):
		case keys.has(r.weight):
			values = compressible(values)
		default:
			continue
		}
		if err := e.reserve(ctx, r.at, values); err != nil {
			err = fmt.Errorf("%s: %s: %w", r.field, r.at, err)
			e.cfg.Event(v1.EventTypeWarning, ReasonFailed, err.Error())
			return err
		}
		e.cfg.Event(v1.EventTypeNormal, ReasonEnforced, "limits of "+r.at+" are set")
	}
	return nil
}

// ErrMissing is wrapped by the error about a reserved cgroup that nobody has made.
var ErrMissing = errors.New("the cgroup is not there, or lacks controllers")

func (e *Enforcer) reserve(ctx context.Context, at string, values cgroups.Values) error {
	name, err := e.cfg.Tree.Driver().Parse(path.Join("/", at))
	if err != nil {
		return err
	}
	there, err := e.cfg.Kernel.IsComplete(name)
	switch {
	case err != nil:
		return err
	case !there:
		return ErrMissing
	}
	return e.cfg.Kernel.Set(ctx, name, values)
}

// Enforce gives the cgroup of all pods its values, and tells whether that has worked: a
// failure each time, success once.
func (e *Enforcer) Enforce(ctx context.Context) error {
	err := e.cfg.Kernel.Set(ctx, e.cfg.Tree.Pods(), e.pods)
	if err != nil {
		err = fmt.Errorf("limits of all pods, %s: %w", e.cfg.Tree.Path(e.cfg.Tree.Pods()), err)
		e.cfg.Event(v1.EventTypeWarning, ReasonFailed, err.Error())
		e.told = err.Error()
	} else if !e.tried || e.told != "" {
		e.cfg.Event(v1.EventTypeNormal, ReasonEnforced, "limits of all pods are set")
		e.told = ""
	}
	e.tried = true
	return err
}

// Run enforces each Period until ctx ends: what has failed is tried again, and what
// somebody has changed is put right.
func (e *Enforcer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		_ = e.Enforce(ctx) // it was told
		run.Sleep(ctx, Period)
	}
	return nil
}
