package resize

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
)

// ErrMemoryInUse is returned if a memory limit cannot be lowered because the usage reaches the
// new limit or is unavailable. The kernel would kill processes.
var ErrMemoryInUse = errors.New("memory in use")

// Runtime changes resources. A cri.RuntimeService implements it. To lower memory limits, it also
// needs the method ContainerStats of cri.StatsReader.
type Runtime interface{ cri.ResourceUpdater }

// Config configures a Resizer. Runtime and Requests are required.
type Config struct {
	// Runtime applies the resources. Required.
	Runtime Runtime
	// Requests builds the runtime's requests. Required.
	Requests *request.Builder
	// Cgroups changes the cgroups of pods. Optional: without it they stay unchanged.
	Cgroups Cgroups
}

// stepGrace bounds a call that changes state after its context is done.
const stepGrace = 5 * time.Second

// Resizer resizes pods in place. It is safe for concurrent use with different pods.
type Resizer struct{ cfg Config }

// New validates the configuration and returns a Resizer.
func New(cfg Config) (*Resizer, error) {
	f := fields.Of("resize: Config")
	f.Required("Runtime", cfg.Runtime)
	f.Required("Requests", cfg.Requests)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Resizer{cfg: cfg}, nil
}

// Request is the input of Resize. All fields are required.
type Request struct {
	// Pod is the desired pod. It is not changed.
	Pod *v1.Pod
	// Status is the pod's state in the runtime.
	Status *observed.Pod
	// Actions is the result of actions.Compute, which has the resizes.
	Actions *actions.Actions
	// Record is the pod's record. Resize updates it after each applied change.
	Record *Record
}

// Resize changes the resources of running containers and of their pod without a restart. Containers
// that do not run change the pod's cgroup only. Each applied change is recorded. After an error, call Resize again: changes can be applied twice.
//
// The pod's values never fall below the sum of its containers: Resize increases the pod before
// its containers, and decreases it after them; memory goes before CPU. A memory limit below the
// usage returns ErrMemoryInUse before any change.
func (z *Resizer) Resize(ctx context.Context, req Request) error {
	switch {
	case req.Pod == nil || req.Status == nil || req.Actions == nil || req.Record == nil:
		return errors.New("resize: Request.Pod, Status, Actions and Record are required")
	case req.Pod.UID == "" || req.Pod.UID != req.Status.UID:
		return fmt.Errorf("resize: Request.Pod.UID %q and Request.Status.UID %q differ or are empty", req.Pod.UID, req.Status.UID)
	}
	r := &resizing{cfg: z.cfg, req: req, now: actuatedPod(req.Pod, req.Status, req.Record.actuated)}
	r.want = wantedPod(req.Pod, r.now)
	r.values = cgroups.NeedsOf(r.now)
	return r.run(ctx)
}

// resizing is one resize of a pod.
type resizing struct {
	cfg Config
	req Request
	// now is the pod with its current resources, want with the desired ones. Both are copies.
	now, want *v1.Pod
	// values are the current values of the pod's cgroup.
	values cgroups.Needs
}

func (r *resizing) run(ctx context.Context) error {
	if err := r.checkMemory(ctx); err != nil {
		return err
	}
	for _, part := range []struct {
		resource v1.ResourceName
		updates  []actions.Update
	}{{v1.ResourceMemory, r.req.Actions.UpdateMemory}, {v1.ResourceCPU, r.req.Actions.UpdateCPU}} {
		if err := r.resource(ctx, part.resource, part.updates); err != nil {
			return fmt.Errorf("resize %s: %w", part.resource, err)
		}
	}
	if stopped := r.req.Actions.UpdateStopped; len(stopped) > 0 {
		if err := r.req.Record.noteStopped(r.req.Pod, stopped); err != nil {
			return err
		}
	}
	if r.req.Actions.UpdatePodLevelResources {
		return r.req.Record.setPod(r.want.Spec.Resources)
	}
	return nil
}

// resource resizes one resource of the pod and of the containers in the list.
func (r *resizing) resource(ctx context.Context, name v1.ResourceName, updates []actions.Update) error {
	limit, request := valuesOf(name)
	want := cgroups.NeedsOf(r.want)
	for _, field := range []valueField{limit, request} {
		if field.grows(r.values, want) {
			if err := r.setPod(ctx, field.copied(r.values, want)); err != nil {
				return err
			}
		}
	}
	for _, u := range updates {
		if err := r.container(ctx, name, u); err != nil {
			return r.undo(ctx, name, fmt.Errorf("container %s: %w", u.Name, err))
		}
	}
	return r.settle(ctx, name, want)
}

// undo gives the pod the sum of its containers again after one of them failed: if the resize is
// withdrawn, none follows. Pod-level values stay for the next attempt, because containers that
// have grown may use them already.
func (r *resizing) undo(ctx context.Context, name v1.ResourceName, err error) error {
	if ctx.Err() != nil || r.req.Actions.UpdatePodLevelResources {
		return err
	}
	return errors.Join(err, r.settle(ctx, name, cgroups.NeedsOf(r.now)))
}

// settle applies the pod's values of one resource.
func (r *resizing) settle(ctx context.Context, name v1.ResourceName, want cgroups.Needs) error {
	limit, request := valuesOf(name)
	for _, field := range []valueField{request, limit} {
		if !field.same(r.values, want) {
			if err := r.setPod(ctx, field.copied(r.values, want)); err != nil {
				return err
			}
		}
	}
	return nil
}

// setPod applies pod-level values to the runtime and the pod's cgroup. If the cgroup fails, the
// runtime gets the old values again.
func (r *resizing) setPod(ctx context.Context, values cgroups.Needs) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	call, done := run.WithGrace(ctx, stepGrace)
	defer done()
	if err := r.updateSandbox(call, values); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if pods := r.cfg.Cgroups; pods != nil {
		if err := pods.SetPodCgroup(call, r.req.Pod, values); err != nil {
			err = fmt.Errorf("pod cgroup: %w", err)
			return errors.Join(err, r.updateSandbox(call, r.values))
		}
	}
	r.values = values
	return nil
}

// updateSandbox sends the pod-level values to the runtime without the pod's overhead, which is a
// separate field. Few runtimes implement this call.
func (r *resizing) updateSandbox(ctx context.Context, values cgroups.Needs) error {
	overhead := r.req.Pod.Spec.Overhead
	cpu := amount(overhead, v1.ResourceCPU)
	err := r.cfg.Runtime.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{
		PodSandboxId: r.req.Actions.SandboxID,
		Overhead:     r.cfg.Requests.Overhead(r.req.Pod),
		Resources: r.cfg.Requests.CgroupResources(values.CPURequest-cpu,
			withoutOverhead(values.CPULimit, cpu), withoutOverhead(values.MemoryLimit, amount(overhead, v1.ResourceMemory))),
	})
	if notImplemented(err) {
		return nil
	}
	return err
}

// container resizes one resource of one container. The request contains the current value of the
// second resource.
func (r *resizing) container(ctx context.Context, name v1.ResourceName, u actions.Update) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now, want := containerOf(r.now, u), containerOf(r.want, u)
	resized := now.DeepCopy()
	resized.Resources = withResource(now.Resources, want.Resources, name)
	call, done := run.WithGrace(ctx, stepGrace)
	defer done()
	err := r.cfg.Runtime.UpdateContainerResources(call, &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: u.ID.ID,
		Linux:       r.cfg.Requests.ContainerResources(r.partly(name), resized),
	})
	if err != nil {
		return err
	}
	now.Resources = resized.Resources
	return r.req.Record.setContainer(u.Name, resized.Resources)
}

// partly returns the pod in the state where the given resource is as desired and later ones are
// not, because containers without a limit get the pod's.
func (r *resizing) partly(name v1.ResourceName) *v1.Pod {
	if name == v1.ResourceCPU || r.want.Spec.Resources == nil {
		return r.want
	}
	out := *r.want
	out.Spec.Resources = new(withResource(*r.now.Spec.Resources, *r.want.Spec.Resources, name))
	return &out
}

// checkMemory returns an error for a memory limit that is not above the usage, because the kernel
// would kill processes. It runs before any change, so that a resize is not half done. The usage of
// a pod without running containers is page cache, which the kernel reclaims.
func (r *resizing) checkMemory(ctx context.Context) error {
	for _, u := range r.req.Actions.UpdateMemory {
		if !tightens(u.Want.MemoryLimit, u.Have.MemoryLimit) {
			continue
		}
		usage, err := r.memoryUsage(ctx, u.ID.ID)
		if err != nil {
			return fmt.Errorf("container %s: %w: usage is unknown: %w", u.Name, ErrMemoryInUse, err)
		}
		if usage >= u.Want.MemoryLimit {
			return fmt.Errorf("container %s: %w: usage %d bytes, new limit %d bytes", u.Name, ErrMemoryInUse, usage, u.Want.MemoryLimit)
		}
	}
	limit := cgroups.NeedsOf(r.want).MemoryLimit
	if r.cfg.Cgroups == nil || !tightens(limit, r.values.MemoryLimit) || len(r.req.Status.Running()) == 0 {
		return nil
	}
	usage, err := r.cfg.Cgroups.PodMemoryUsage(ctx, r.req.Pod)
	if err != nil {
		return fmt.Errorf("pod: %w: usage is unknown: %w", ErrMemoryInUse, err)
	}
	if usage >= limit {
		return fmt.Errorf("pod: %w: usage %d bytes, new limit %d bytes", ErrMemoryInUse, usage, limit)
	}
	return nil
}

type containerStats interface {
	ContainerStats(ctx context.Context, containerID string) (*runtimeapi.ContainerStats, error)
}

func (r *resizing) memoryUsage(ctx context.Context, id string) (int64, error) {
	reader, ok := r.cfg.Runtime.(containerStats)
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
	return 0, errors.New("the runtime reports no memory usage")
}
