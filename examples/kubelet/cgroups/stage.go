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
	// Values is what holds for the pods of the node.
	Values cgroups.Config
	// Ours tells whether a pod, which nobody wants any more, is this agent's. Those of
	// another agent on the machine are left alone. nil: all are.
	Ours func(uid types.UID) bool
}

// Stage keeps a cgroup for each pod. Use New.
type Stage struct {
	cfg Config

	mu sync.Mutex
	// given is what pods' cgroups have, as far as this agent knows.
	given map[types.UID]given
	// released is when this agent has removed a pod's cgroup, if that is not long ago.
	released map[types.UID]time.Time
	// listed tells that given has had all pods of the node once: before, the weight of a
	// class is not known and stays as the last agent has left it.
	listed bool
	// burstable is the weight that the class was given; zero if it is to be given anew.
	burstable uint64
	// weighing tells that a call is about to give it.
	weighing bool
}

// given is a pod, and what its cgroup was given.
type given struct {
	pod    *v1.Pod
	values *cgroups.Values // nil: not known
}

var (
	_ stages.Stage   = (*Stage)(nil)
	_ resize.Cgroups = (*Stage)(nil)
)

// New returns a Stage. It does nothing yet: see Setup.
func New(cfg Config) (*Stage, error) {
	f := fields.Of("cgroups: Config")
	f.Required("Kernel", cfg.Kernel)
	f.Required("Tree", cfg.Tree)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Stage{cfg: cfg, given: map[types.UID]given{}, released: map[types.UID]time.Time{}}, nil
}

// Setup makes the cgroups of all pods and of their classes; the limits of all pods together
// are package allocatable's. It is called at the start,
// and whenever somebody may have removed them.
func (s *Stage) Setup(ctx context.Context) error {
	if err := s.cfg.Kernel.Set(ctx, s.cfg.Tree.Pods(), cgroups.Values{}); err != nil {
		return fmt.Errorf("cgroups: of all pods: %w", err)
	}
	for _, class := range cgroups.Classes() {
		values := cgroups.ForClass(s.cfg.Values, class, nil)
		if there, err := s.cfg.Kernel.IsComplete(s.cfg.Tree.Class(class)); class == v1.PodQOSBurstable && err == nil && there {
			values.Shares = 0 // pods may run in it: Update knows
		}
		if err := s.cfg.Kernel.Set(ctx, s.cfg.Tree.Class(class), values); err != nil {
			return fmt.Errorf("cgroups: of %s pods: %w", class, err)
		}
	}
	return nil
}

// Prepare makes a pod's cgroup. One that has something in it was finished by whoever has
// put that there, and has other values only while its pod is resized: see SetPodCgroup.
// It implements stages.Stage.
func (s *Stage) Prepare(ctx context.Context, pod *v1.Pod) error {
	name, values := s.cfg.Tree.Pod(pod), cgroups.ForPod(s.cfg.Values, pod)
	outdated, err := s.isOutdated(name, pod.UID, values)
	if err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	if outdated {
		if err := s.cfg.Kernel.Set(ctx, name, values); err != nil {
			return fmt.Errorf("cgroups: %s: %w", s.cfg.Tree.Path(name), err)
		}
	}
	s.mu.Lock()
	s.given[pod.UID] = given{pod: pod, values: &values}
	delete(s.released, pod.UID)
	s.mu.Unlock()
	_ = s.weigh(ctx) // that is no matter of this pod: Update tries again, and tells
	return nil
}

// isOutdated tells whether a pod's cgroup is to get values.
func (s *Stage) isOutdated(name cgroups.Name, uid types.UID, values cgroups.Values) (bool, error) {
	there, err := s.cfg.Kernel.IsComplete(name)
	if err != nil || !there {
		return true, err
	}
	s.mu.Lock()
	had := s.given[uid].values
	s.mu.Unlock()
	if had != nil && had.Equal(values) {
		return false, nil
	}
	inUse, err := s.cfg.Kernel.InUse(name)
	return !inUse, err
}

// Parent is what a runtime is told of where a pod's sandbox goes.
func (s *Stage) Parent(pod *v1.Pod) string { return s.cfg.Tree.Path(s.cfg.Tree.Pod(pod)) }

// SetPodCgroup gives a pod's cgroup other values, step by step. It implements
// resize.Cgroups.
func (s *Stage) SetPodCgroup(ctx context.Context, pod *v1.Pod, needs cgroups.Needs) error {
	return s.cfg.Kernel.Set(ctx, s.cfg.Tree.Pod(pod), cgroups.ForNeeds(s.cfg.Values, pod, needs))
}

// PodMemoryUsage implements resize.Cgroups.
func (s *Stage) PodMemoryUsage(_ context.Context, pod *v1.Pod) (int64, error) {
	return s.cfg.Kernel.MemoryUsage(s.cfg.Tree.Pod(pod))
}

// Release removes a pod's cgroup, whatever its class was. It implements stages.Stage.
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
	delete(s.given, uid)
	s.released[uid] = time.Now()
	s.mu.Unlock()
	_ = s.weigh(ctx) // as in Prepare
	return nil
}

// lateFor is how long a cgroup may come again that was removed: a runtime that was told to
// end the start of a sandbox goes on with it for a while, and makes its cgroup, with all that
// is above.
const lateFor = 15 * time.Minute

// isOurs tells whether a pod which nobody wants any more is this agent's, as far as known.
func (s *Stage) isOurs(uid types.UID) bool {
	s.mu.Lock()
	_, lately := s.released[uid]
	s.mu.Unlock()
	return lately || s.cfg.Ours == nil || s.cfg.Ours(uid)
}

// Leftovers names the pods of this agent's that have a cgroup. It implements stages.Stage.
func (s *Stage) Leftovers(context.Context) ([]types.UID, error) {
	s.mu.Lock()
	maps.DeleteFunc(s.released, func(_ types.UID, at time.Time) bool { return time.Since(at) > lateFor })
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

// Update says which pods there are that are not over, all of them, so that their classes
// weigh what they ask for. Until it was called once, classes keep the weight they have.
// What has failed is tried again.
func (s *Stage) Update(ctx context.Context, pods []*v1.Pod) error {
	s.mu.Lock()
	s.listed, s.burstable = true, 0 // whatever it has, it gets its weight
	all := make(map[types.UID]given, len(pods))
	for _, pod := range pods {
		all[pod.UID] = given{pod: pod, values: s.given[pod.UID].values}
	}
	s.given = all
	s.mu.Unlock()
	return s.weigh(ctx)
}

// Refresh is Setup and Update: it is called now and then.
func (s *Stage) Refresh(ctx context.Context, pods []*v1.Pod) error {
	return errors.Join(s.Setup(ctx), s.Update(ctx, pods))
}

// weigh gives the class of Burstable pods its weight, if that has changed. While another
// call does that, which may take long, this one leaves it to that.
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
			return fmt.Errorf("cgroups: of %s pods: %w", v1.PodQOSBurstable, err)
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

// next is the weight that the class is to have, and whether it has another one. If it
// has not, nobody weighs any more.
func (s *Stage) next() (shares uint64, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pods := make([]*v1.Pod, 0, len(s.given))
	for _, g := range s.given {
		pods = append(pods, g.pod)
	}
	shares = cgroups.ForClass(s.cfg.Values, v1.PodQOSBurstable, pods).Shares
	s.weighing = shares != s.burstable
	return shares, s.weighing
}
