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

// ErrMemoryInUse says that a memory limit was not lowered because what it is to
// bound uses as much already, or nobody can tell. The kernel would kill for it.
var ErrMemoryInUse = errors.New("memory in use")

// Runtime changes resources. A cri.RuntimeService is one. One that has the method
// ContainerStats of a cri.StatsReader too can have memory limits lowered.
type Runtime interface{ cri.ResourceUpdater }

// Config configures a Resizer. Runtime and Requests are required.
type Config struct {
	// Runtime is told of resources. Required.
	Runtime Runtime
	// Requests puts resources into the words of the runtime. Required.
	Requests *request.Builder
	// Cgroups changes the cgroups of pods; nil leaves them as they are.
	Cgroups Cgroups
}

// stepGrace bounds a call that changes something after its context is done.
const stepGrace = 5 * time.Second

// Resizer resizes pods in place. It is safe for concurrent use, for different pods.
type Resizer struct{ cfg Config }

// New checks the configuration and returns a Resizer.
func New(cfg Config) (*Resizer, error) {
	f := fields.Of("resize: Config")
	f.Required("Runtime", cfg.Runtime)
	f.Required("Requests", cfg.Requests)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Resizer{cfg: cfg}, nil
}

// Request asks for a resize. All fields are required.
type Request struct {
	// Pod is the desired pod. It is not changed.
	Pod *v1.Pod
	// Status is what the runtime has of it.
	Status *observed.Pod
	// Actions are what actions.Compute found to resize.
	Actions *actions.Actions
	// Record is of a store, and follows each call.
	Record *Record
}

// Resize changes the resources of running containers, and of the pod around them,
// without a restart. It is all told to the runtime or tried again: what has been told
// is on record after each call, and telling it twice does no harm.
//
// The parts of a pod never have more than the whole: what grows does so from the
// outside in, what shrinks from the inside out; memory before CPU. A memory limit below
// what is in use is ErrMemoryInUse, and nothing is changed.
func (z *Resizer) Resize(ctx context.Context, req Request) error {
	switch {
	case req.Pod == nil || req.Status == nil || req.Actions == nil || req.Record == nil:
		return errors.New("resize: Request.Pod, Status, Actions and Record are required")
	case req.Pod.UID == "" || req.Pod.UID != req.Status.UID:
		return fmt.Errorf("resize: Request.Status is of another pod: its UID is %q, not %q", req.Status.UID, req.Pod.UID)
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
	// now is the pod with the resources that it has at this moment; want is the
	// pod with those that it is to have. Neither is the caller's.
	now, want *v1.Pod
	// values are those that the pod's cgroup has now.
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
func (r *resizing) setPod(ctx context.Context, values cgroups.Needs) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	call, done := run.WithGrace(ctx, stepGrace)
	defer done()
	if err := r.tellSandbox(call, values); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if pods := r.cfg.Cgroups; pods != nil {
		if err := pods.SetPodCgroup(call, r.req.Pod, values); err != nil {
			err = fmt.Errorf("pod cgroup: %w", err)
			return errors.Join(err, r.tellSandbox(call, r.values))
		}
	}
	r.values = values
	return nil
}

// tellSandbox tells the runtime about the pod as a whole, without its overhead,
// which it knows apart. Few runtimes want to know.
func (r *resizing) tellSandbox(ctx context.Context, values cgroups.Needs) error {
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

// container resizes one resource of one container. The runtime is sent the other
// one, too, as it is.
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

// partly is the pod while one of its resources is as wanted, and the other, if its
// turn is yet to come, is not: containers without a limit have the pod's.
func (r *resizing) partly(name v1.ResourceName) *v1.Pod {
	if name == v1.ResourceCPU || r.want.Spec.Resources == nil {
		return r.want
	}
	out := *r.want
	out.Spec.Resources = new(withResource(*r.now.Spec.Resources, *r.want.Spec.Resources, name))
	return &out
}

// checkMemory refuses limits that would have the kernel kill: those below what is
// in use. It looks before anything is changed, so that a resize is not half done.
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
			return fmt.Errorf("container %s: %w: it uses %d bytes, the new limit is %d", u.Name, ErrMemoryInUse, usage, u.Want.MemoryLimit)
		}
	}
	limit := cgroups.NeedsOf(r.want).MemoryLimit
	if r.cfg.Cgroups == nil || !tightens(limit, r.values.MemoryLimit) {
		return nil
	}
	usage, err := r.cfg.Cgroups.PodMemoryUsage(ctx, r.req.Pod)
	if err != nil {
		return fmt.Errorf("pod: %w: usage is unknown: %w", ErrMemoryInUse, err)
	}
	if usage >= limit {
		return fmt.Errorf("pod: %w: it uses %d bytes, the new limit is %d", ErrMemoryInUse, usage, limit)
	}
	return nil
}

// containerStats tells how much memory a container uses.
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
	return 0, errors.New("the runtime does not tell")
}
