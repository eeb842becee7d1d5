package cgroups

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/podworkers/stages"
)

// Config configures a Stage. Kernel and Tree are required.
type Config struct {
	Kernel Kernel
	Tree   *cgroups.Tree
	// Values configures the values of all cgroups of the node.
	Values cgroups.Config
	// Ours reports whether an orphaned pod belongs to this agent. Pods of other agents on the
	// machine are not touched. Optional: without it all pods are this agent's.
	Ours func(uid types.UID) bool
}

// Stage keeps a cgroup for each pod. Use New.
type Stage struct {
	cfg Config

	mu sync.Mutex
	// applied has the pods and the last known values of their cgroups.
	applied map[types.UID]appliedValues
	// released has the times of recent removals of cgroups by this agent.
	released map[types.UID]time.Time
	// listed is true after the first Update. Before, the weight of the class is unknown and stays
	// unchanged.
	listed bool
	// burstable is the last weight set for the Burstable class, or zero to set it again.
	burstable uint64
	weighing  bool
}

type appliedValues struct {
	pod    *v1.Pod
	values *cgroups.Values // nil: unknown
}

var (
	_ stages.Stage   = (*Stage)(nil)
	_ resize.Cgroups = (*Stage)(nil)
)

// New returns a Stage. Call Setup before its first use.
func New(cfg Config) (*Stage, error) {
	f := fields.Of("cgroups: Config")
	f.Required("Kernel", cfg.Kernel)
	f.Required("Tree", cfg.Tree)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Stage{cfg: cfg, applied: map[types.UID]appliedValues{}, released: map[types.UID]time.Time{}}, nil
}

// Setup creates the cgroups of all pods and of their classes. Package allocatable sets the limits
// of all pods together. Call Setup at the start and whenever the cgroups may have been removed.
func (s *Stage) Setup(ctx context.Context) error {
	if err := s.cfg.Kernel.Set(ctx, s.cfg.Tree.Pods(), cgroups.Values{}); err != nil {
		return fmt.Errorf("cgroups: cgroup of all pods: %w", err)
	}
	for _, class := range cgroups.Classes() {
		values := cgroups.ForClass(s.cfg.Values, class, nil)
		if there, err := s.cfg.Kernel.IsComplete(s.cfg.Tree.Class(class)); class == v1.PodQOSBurstable && err == nil && there {
			values.Shares = 0 // Update sets the weight, because pods may run in it
		}
		if err := s.cfg.Kernel.Set(ctx, s.cfg.Tree.Class(class), values); err != nil {
			return fmt.Errorf("cgroups: cgroup of %s pods: %w", class, err)
		}
	}
	return nil
}

// Prepare implements stages.Stage. It creates the pod's cgroup. A cgroup in use stays unchanged:
// it already has its values, or a resize is changing them (see SetPodCgroup).
func (s *Stage) Prepare(ctx context.Context, pod *v1.Pod) error {
	name, values := s.cfg.Tree.Pod(pod), cgroups.ForPod(s.cfg.Values, pod)
	outdated, err := s.isOutdated(name, pod.UID, values)
	if err != nil {
		return createError{fmt.Errorf("cgroups: %w", err)}
	}
	if outdated {
		if err := s.cfg.Kernel.Set(ctx, name, values); err != nil {
			return createError{fmt.Errorf("cgroups: %s: %w", s.cfg.Tree.Path(name), err)}
		}
	}
	s.mu.Lock()
	s.applied[pod.UID] = appliedValues{pod: pod, values: &values}
	delete(s.released, pod.UID)
	s.mu.Unlock()
	_ = s.weigh(ctx) // not an error of this pod: Update retries and returns the error
	return nil
}

// createError is the error of a pod's cgroup. Its methods return the reason and the message of the
// pod's event, which are upstream's.
type createError struct{ error }

func (e createError) Unwrap() error { return e.error }

func (e createError) EventReason() string { return "FailedCreatePodContainer" }

func (e createError) EventMessage() string {
	return fmt.Sprintf("unable to ensure pod container exists: %v", e.error)
}

func (s *Stage) isOutdated(name cgroups.Name, uid types.UID, values cgroups.Values) (bool, error) {
	there, err := s.cfg.Kernel.IsComplete(name)
	if err != nil || !there {
		return true, err
	}
	s.mu.Lock()
	had := s.applied[uid].values
	s.mu.Unlock()
	if had != nil && had.Equal(values) {
		return false, nil
	}
	inUse, err := s.cfg.Kernel.InUse(name)
	return !inUse, err
}

// Parent returns the parent cgroup of the pod's sandbox, in the runtime's notation.
func (s *Stage) Parent(pod *v1.Pod) string { return s.cfg.Tree.Path(s.cfg.Tree.Pod(pod)) }

// SetPodCgroup implements resize.Cgroups. It sets values of a pod's cgroup during a resize.
func (s *Stage) SetPodCgroup(ctx context.Context, pod *v1.Pod, needs cgroups.Needs) error {
	return s.cfg.Kernel.Set(ctx, s.cfg.Tree.Pod(pod), cgroups.ForNeeds(s.cfg.Values, pod, needs))
}

// PodMemoryUsage implements resize.Cgroups.
func (s *Stage) PodMemoryUsage(_ context.Context, pod *v1.Pod) (int64, error) {
	return s.cfg.Kernel.MemoryUsage(s.cfg.Tree.Pod(pod))
}

// Release implements stages.Stage. It removes a pod's cgroup in each class.
func (s *Stage) Release(ctx context.Context, uid types.UID) error {
	var errs []error
	for _, class := range append(cgroups.Classes(), v1.PodQOSGuaranteed) {
		pod := &v1.Pod{Status: v1.PodStatus{QOSClass: class}}
		pod.UID = uid
		errs = append(errs, s.cfg.Kernel.Remove(ctx, s.cfg.Tree.Pod(pod)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	s.mu.Lock()
	delete(s.applied, uid)
	s.released[uid] = time.Now()
	s.mu.Unlock()
	_ = s.weigh(ctx) // as in Prepare
	return nil
}

// reappearTime is the time during which a removed cgroup may reappear: a runtime whose call to
// start a sandbox was cancelled may continue for a while and create the pod's cgroup again.
const reappearTime = 15 * time.Minute

// isOurs reports whether an orphaned pod belongs to this agent.
func (s *Stage) isOurs(uid types.UID) bool {
	s.mu.Lock()
	_, lately := s.released[uid]
	s.mu.Unlock()
	return lately || s.cfg.Ours == nil || s.cfg.Ours(uid)
}

// Leftovers implements stages.Stage. It returns this agent's pods that have a cgroup.
func (s *Stage) Leftovers(context.Context) ([]types.UID, error) {
	s.mu.Lock()
	maps.DeleteFunc(s.released, func(_ types.UID, at time.Time) bool { return time.Since(at) > reappearTime })
	s.mu.Unlock()
	var out []types.UID
	for _, class := range append(cgroups.Classes(), v1.PodQOSGuaranteed) {
		children, err := s.cfg.Kernel.Children(s.cfg.Tree.Class(class))
		if err != nil {
			return nil, fmt.Errorf("cgroups: %w", err)
		}
		for _, child := range children {
			if uid, _, ok := s.cfg.Tree.PodOf(child); ok && s.isOurs(uid) {
				out = append(out, uid)
			}
		}
	}
	return out, nil
}

// Update sets the weight of the Burstable class to the sum of its pods' requests. pods are all pods
// that have not finished. Before the first call the class keeps its weight. Update also retries
// failed changes.
func (s *Stage) Update(ctx context.Context, pods []*v1.Pod) error {
	s.mu.Lock()
	s.listed, s.burstable = true, 0 // the weight is set even if it is unchanged
	all := make(map[types.UID]appliedValues, len(pods))
	for _, pod := range pods {
		all[pod.UID] = appliedValues{pod: pod, values: s.applied[pod.UID].values}
	}
	s.applied = all
	s.mu.Unlock()
	return s.weigh(ctx)
}

// Refresh runs Setup and Update. Call it periodically.
func (s *Stage) Refresh(ctx context.Context, pods []*v1.Pod) error {
	return errors.Join(s.Setup(ctx), s.Update(ctx, pods))
}

// weigh sets the weight of the Burstable class if it has changed. If another call is setting it,
// that call also sets the newest weight, and this one returns at once.
func (s *Stage) weigh(ctx context.Context) error {
	if !s.begin() {
		return nil
	}
	for {
		shares, changed := s.next()
		if !changed {
			return nil
		}
		err := s.cfg.Kernel.Set(ctx, s.cfg.Tree.Class(v1.PodQOSBurstable), cgroups.Values{Shares: shares})
		s.mu.Lock()
		if err != nil {
			s.weighing = false
			s.mu.Unlock()
			return fmt.Errorf("cgroups: cgroup of %s pods: %w", v1.PodQOSBurstable, err)
		}
		s.burstable = shares
		s.mu.Unlock()
	}
}

func (s *Stage) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listed || s.weighing {
		return false
	}
	s.weighing = true
	return true
}

// next returns the weight of the class and whether it has to be set. If not, it ends the weighing.
func (s *Stage) next() (shares uint64, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pods := make([]*v1.Pod, 0, len(s.applied))
	for _, g := range s.applied {
		pods = append(pods, g.pod)
	}
	shares = cgroups.ForClass(s.cfg.Values, v1.PodQOSBurstable, pods).Shares
	s.weighing = shares != s.burstable
	return shares, s.weighing
}
