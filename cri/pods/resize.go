package pods

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/internal/run"
)

// ErrMemoryInUse says that a memory limit was not lowered because what it is to
// bound uses as much already, or nobody can tell. The kernel would kill for it.
var ErrMemoryInUse = errors.New("memory in use")

// resize changes the resources of running containers, and of the pod around them,
// without a restart (KEP-1287). It is all told to the runtime or tried again: what
// has been told is on record after each call, and telling it twice does no harm.
//
// The parts of a pod never have more than the whole: what grows does so from the
// outside in, what shrinks from the inside out; memory before CPU.
func (s *podSync) resize(ctx context.Context) {
	if !s.actions.Resizes() || s.ended(ctx) {
		return
	}
	s.step("resizing containers")
	begin := time.Now()
	r, err := s.newResizing()
	if err == nil {
		err = r.run(ctx)
	}
	if err != nil && s.ended(ctx) {
		return
	}
	s.m.cfg.Metrics.Resized(time.Since(begin), err)
	s.result.add(ActionResizePodInPlace, s.identity.Name, err)
}

// resizing is one resize of a pod.
type resizing struct {
	*podSync
	runtime cri.ResourceUpdater
	// now is the pod with the resources that it has at this moment; want is the
	// pod with those that it is to have. Neither is the caller's.
	now, want *v1.Pod
	// values are those that the pod's cgroup has now.
	values PodCgroupValues
}

func (s *podSync) newResizing() (*resizing, error) {
	runtime, ok := s.m.cfg.Runtime.(cri.ResourceUpdater)
	if !ok {
		return nil, errors.New("the runtime cannot change resources")
	}
	r := &resizing{podSync: s, runtime: runtime, now: actuatedPod(s.req.Pod, s.req.Status, s.actuated)}
	r.want = wantedPod(s.req.Pod, r.now)
	r.values = podCgroupValues(r.now)
	return r, nil
}

func (r *resizing) run(ctx context.Context) error {
	if err := r.checkMemory(ctx); err != nil {
		return err
	}
	for _, part := range []struct {
		resource v1.ResourceName
		updates  []actions.Update
	}{{v1.ResourceMemory, r.actions.UpdateMemory}, {v1.ResourceCPU, r.actions.UpdateCPU}} {
		if err := r.resource(ctx, part.resource, part.updates); err != nil {
			return fmt.Errorf("resize %s: %w", part.resource, err)
		}
	}
	if r.actions.UpdatePodLevelResources {
		return r.saveActuated(ActuatedResources{Containers: r.actuated.Containers, Pod: r.want.Spec.Resources})
	}
	return nil
}

// resource resizes one resource of the pod and of the containers in the list.
func (r *resizing) resource(ctx context.Context, name v1.ResourceName, updates []actions.Update) error {
	limit, request := valuesOf(name)
	want := podCgroupValues(r.want)
	for _, field := range []valueField{limit, request} {
		if field.grows(r.values, want) {
			if err := r.setPod(ctx, field.copied(r.values, want)); err != nil {
				return err
			}
		}
	}
	for _, u := range updates {
		if err := r.container(ctx, name, u); err != nil {
			return fmt.Errorf("container %s: %w", u.Name, err)
		}
	}
	for _, field := range []valueField{request, limit} {
		if !field.same(r.values, want) {
			if err := r.setPod(ctx, field.copied(r.values, want)); err != nil {
				return err
			}
		}
	}
	return nil
}

// setPod gives the pod as a whole other values: it tells the runtime, and changes
// the cgroup. If that fails, the runtime is told what still holds.
func (r *resizing) setPod(ctx context.Context, values PodCgroupValues) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	call, done := run.WithGrace(ctx, r.m.cfg.StepGrace)
	defer done()
	if err := r.tellSandbox(call, values); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if cgroups := r.m.cfg.PodCgroups; cgroups != nil {
		if err := cgroups.SetPodCgroup(call, r.req.Pod, values); err != nil {
			err = fmt.Errorf("pod cgroup: %w", err)
			return errors.Join(err, r.tellSandbox(call, r.values))
		}
	}
	r.values = values
	return nil
}

// tellSandbox tells the runtime about the pod as a whole, without its overhead,
// which it knows apart. Few runtimes want to know.
func (r *resizing) tellSandbox(ctx context.Context, values PodCgroupValues) error {
	overhead := overheadOf(r.req.Pod)
	err := r.runtime.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{
		PodSandboxId: r.actions.SandboxID,
		Overhead:     r.m.builder.Overhead(r.req.Pod),
		Resources: r.m.builder.CgroupResources(values.CPURequest-overhead.CPURequest,
			withoutOverhead(values.CPULimit, overhead.CPULimit), withoutOverhead(values.MemoryLimit, overhead.MemoryLimit)),
	})
	if notImplemented(err) {
		return nil
	}
	return err
}

// container resizes one resource of one container. The runtime is sent the other
// one, too, as it is.
func (r *resizing) container(ctx context.Context, name v1.ResourceName, u actions.Update) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now, want := containerOf(r.now, u), containerOf(r.want, u)
	resized := now.DeepCopy()
	resized.Resources = withResource(now.Resources, want.Resources, name)
	call, done := run.WithGrace(ctx, r.m.cfg.StepGrace)
	defer done()
	err := r.runtime.UpdateContainerResources(call, &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: u.ID.ID,
		Linux:       r.m.builder.ContainerResources(r.partly(name), resized),
	})
	if err != nil {
		return err
	}
	now.Resources = resized.Resources
	return r.saveActuated(r.actuated.withContainer(u.Name, resized.Resources))
}

// partly is the pod while one of its resources is as wanted, and the other, if its
// turn is yet to come, is not: containers without a limit have the pod's.
func (r *resizing) partly(name v1.ResourceName) *v1.Pod {
	if name == v1.ResourceCPU || r.now.Spec.Resources == nil || r.want.Spec.Resources == nil {
		return r.want
	}
	out := *r.want
	out.Spec.Resources = new(withResource(*r.now.Spec.Resources, *r.want.Spec.Resources, name))
	return &out
}

// checkMemory refuses limits that would have the kernel kill: those below what is
// in use. It looks before anything is changed, so that a resize is not half done.
func (r *resizing) checkMemory(ctx context.Context) error {
	for _, u := range r.actions.UpdateMemory {
		if !tightens(u.Want.MemoryLimit, u.Have.MemoryLimit) {
			continue
		}
		usage, err := r.memoryUsage(ctx, u.ID.ID)
		if err != nil {
			return fmt.Errorf("container %s: %w: usage is unknown: %w", u.Name, ErrMemoryInUse, err)
		}
		if usage >= u.Want.MemoryLimit {
			return fmt.Errorf("container %s: %w: it uses %d bytes, the new limit is %d", u.Name, ErrMemoryInUse, usage, u.Want.MemoryLimit)
		}
	}
	limit := podCgroupValues(r.want).MemoryLimit
	if r.m.cfg.PodCgroups == nil || !tightens(limit, r.values.MemoryLimit) {
		return nil
	}
	usage, err := r.m.cfg.PodCgroups.PodMemoryUsage(ctx, r.req.Pod)
	if err != nil {
		return fmt.Errorf("pod: %w: usage is unknown: %w", ErrMemoryInUse, err)
	}
	if usage >= limit {
		return fmt.Errorf("pod: %w: it uses %d bytes, the new limit is %d", ErrMemoryInUse, usage, limit)
	}
	return nil
}

// containerStats is what of cri.StatsReader a resize needs.
type containerStats interface {
	ContainerStats(ctx context.Context, containerID string) (*runtimeapi.ContainerStats, error)
}

func (r *resizing) memoryUsage(ctx context.Context, id string) (int64, error) {
	reader, ok := r.m.cfg.Runtime.(containerStats)
	if !ok {
		return 0, errors.New("the runtime has no statistics")
	}
	stats, err := reader.ContainerStats(ctx, id)
	if err != nil {
		return 0, err
	}
	for _, value := range []*runtimeapi.UInt64Value{stats.GetMemory().GetUsageBytes(), stats.GetMemory().GetWorkingSetBytes()} {
		if value != nil {
			return int64(value.Value), nil
		}
	}
	return 0, errors.New("the runtime does not tell")
}
