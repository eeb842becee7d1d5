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

// Reasons of events about the Node.
const (
	ReasonEnforced = "NodeAllocatableEnforced"
	ReasonFailed   = "FailedNodeAllocatableEnforcement"
)

// Period is the period of Run.
const Period = time.Minute

// Kernel is the interface to the machine's cgroups. Set creates a missing cgroup. IsComplete
// reports whether it exists with all controllers.
type Kernel interface {
	Set(ctx context.Context, n cgroups.Name, v cgroups.Values) error
	IsComplete(n cgroups.Name) (bool, error)
}

// Config configures an Enforcer. Kernel, Tree and Capacity are required.
type Config struct {
	Kernel Kernel
	Tree   *cgroups.Tree
	// Capacity is the machine's capacity, including processes (cgroups.ResourcePids).
	Capacity v1.ResourceList
	// System and Kube are the reservations.
	System, Kube v1.ResourceList
	// Keys selects the enforced limits.
	Keys Keys
	// Event receives events about the Node. Optional.
	Event func(eventtype, reason, message string)
}

// Enforcer sets the limits of the cgroups. Use New. It is not safe for concurrent use.
type Enforcer struct {
	cfg  Config
	pods cgroups.Values
	// lastError is the error of the last attempt at the cgroup of all pods, "" after success. It is
	// valid once tried is true.
	lastError string
	tried     bool
}

// New checks the configuration. It fails with the name of the resource if the reservations exceed
// the capacity.
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

// Values returns the values of the cgroup of all pods.
func (e *Enforcer) Values() cgroups.Values { return e.pods }

// Reserve sets the values of the reserved cgroups. It fails if one of them is missing or cannot be
// changed; the agent must not start then.
func (e *Enforcer) Reserve(ctx context.Context) error {
	keys := &e.cfg.Keys
	for _, r := range []struct {
		field, whole, weight, at string
		list                     v1.ResourceList
		failed                   func(at string, err error) string
		done                     func(at string) string
	}{
		{"systemReservedCgroup", System, SystemCompressible, keys.SystemCgroup, e.cfg.System, systemFailed, systemDone},
		{"kubeReservedCgroup", Kube, KubeCompressible, keys.KubeCgroup, e.cfg.Kube, kubeFailed, kubeDone},
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
			e.cfg.Event(v1.EventTypeWarning, ReasonFailed, r.failed(r.at, err))
			return fmt.Errorf("%s: %s: %w", r.field, r.at, err)
		}
		e.cfg.Event(v1.EventTypeNormal, ReasonEnforced, r.done(r.at))
	}
	return nil
}

// ErrMissing is wrapped by the error about a missing reserved cgroup.
var ErrMissing = errors.New("the cgroup does not exist or lacks controllers")

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

// Enforce sets the values of the cgroup of all pods. It emits an event for each failure, and for
// the first success after the start or a failure.
func (e *Enforcer) Enforce(ctx context.Context) error {
	err := e.cfg.Kernel.Set(ctx, e.cfg.Tree.Pods(), e.pods)
	if err != nil {
		at := e.cfg.Tree.Path(e.cfg.Tree.Pods())
		e.cfg.Event(v1.EventTypeWarning, ReasonFailed, fmt.Sprintf("Failed to update Node Allocatable Limits %q: %v", at, err))
		err = fmt.Errorf("limits of all pods, %s: %w", at, err)
		e.lastError = err.Error()
	} else if !e.tried || e.lastError != "" {
		e.cfg.Event(v1.EventTypeNormal, ReasonEnforced, "Updated Node Allocatable limit across pods")
		e.lastError = ""
	}
	e.tried = true
	return err
}

// Run calls Enforce once per Period until ctx is done. So it retries failures and reverts changes
// by other programs.
func (e *Enforcer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		_ = e.Enforce(ctx) // reported as an event
		run.Sleep(ctx, Period)
	}
	return nil
}

// The texts of the events about the reserved cgroups are upstream's.

func systemFailed(at string, err error) string {
	return fmt.Sprintf("Failed to enforce System Reserved Cgroup Limits on %q: %v", at, err)
}

func systemDone(at string) string {
	return fmt.Sprintf("Updated limits on system reserved cgroup %v", at)
}

func kubeFailed(at string, err error) string {
	return fmt.Sprintf("Failed to enforce Kube Reserved Cgroup Limits on %q: %v", at, err)
}

func kubeDone(at string) string {
	return fmt.Sprintf("Updated limits on kube reserved cgroup %v", at)
}
