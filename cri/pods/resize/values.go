package resize

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/pleg/observed"
)

// The functions of this file are pure. They compute the resources of pods.

// withoutOverhead subtracts the overhead from a limit. 0 stays 0, no limit.
func withoutOverhead(limit, overhead int64) int64 {
	if limit == 0 {
		return 0
	}
	return limit - overhead
}

// amount returns millicores or bytes.
func amount(list v1.ResourceList, name v1.ResourceName) int64 {
	q := list[name]
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// A valueField selects one field of cgroups.Needs.
type valueField struct {
	of        func(*cgroups.Needs) *int64
	unlimited bool // 0 means no limit
}

// valuesOf returns the fields for limit and request of a resource.
func valuesOf(name v1.ResourceName) (limit, request valueField) {
	if name == v1.ResourceCPU {
		return valueField{func(v *cgroups.Needs) *int64 { return &v.CPULimit }, true},
			valueField{func(v *cgroups.Needs) *int64 { return &v.CPURequest }, false}
	}
	return valueField{func(v *cgroups.Needs) *int64 { return &v.MemoryLimit }, true},
		valueField{func(v *cgroups.Needs) *int64 { return &v.MemoryRequest }, false}
}

func (f valueField) same(a, b cgroups.Needs) bool { return *f.of(&a) == *f.of(&b) }

// grows reports whether the field is larger in to than in from.
func (f valueField) grows(from, to cgroups.Needs) bool {
	a, b := *f.of(&from), *f.of(&to)
	if f.unlimited && (a == 0 || b == 0) {
		return a != 0
	}
	return b > a
}

// copied returns values with the field taken from from.
func (f valueField) copied(values, from cgroups.Needs) cgroups.Needs {
	*f.of(&values) = *f.of(&from)
	return values
}

// tightens reports whether a limit is new or lower than before. 0 means no limit.
func tightens(want, have int64) bool { return want != 0 && (have == 0 || want < have) }

// actuatedPod returns the pod with its current resources: the recorded ones, or else the reported
// ones of a running container, or else the spec's.
func actuatedPod(pod *v1.Pod, seen *observed.Pod, actuated actions.Actuated) *v1.Pod {
	out := withOwnContainers(pod)
	if actuated.Pod != nil {
		out.Spec.Resources = actuated.Pod
	}
	for _, list := range [][]v1.Container{out.Spec.InitContainers, out.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if record, ok := actuated.Containers[c.Name]; ok {
				c.Resources = record
			} else if running := seen.Newest(c.Name); running != nil && running.State == observed.StateRunning {
				c.Resources = reported(running.Resources, c.Resources)
			}
		}
	}
	return out
}

// wantedPod returns the pod with its desired resources. A removed limit keeps its value in now,
// because runtimes cannot remove limits.
func wantedPod(pod, now *v1.Pod) *v1.Pod {
	out := withOwnContainers(pod)
	for i := range out.Spec.InitContainers {
		keepLimits(&out.Spec.InitContainers[i].Resources, now.Spec.InitContainers[i].Resources)
	}
	for i := range out.Spec.Containers {
		keepLimits(&out.Spec.Containers[i].Resources, now.Spec.Containers[i].Resources)
	}
	if out.Spec.Resources != nil && now.Spec.Resources != nil {
		out.Spec.Resources = out.Spec.Resources.DeepCopy()
		keepLimits(out.Spec.Resources, *now.Spec.Resources)
	}
	return out
}

// withOwnContainers returns a copy of the pod with copied container lists.
func withOwnContainers(pod *v1.Pod) *v1.Pod {
	out := *pod
	out.Spec.InitContainers = slices.Clone(pod.Spec.InitContainers)
	out.Spec.Containers = slices.Clone(pod.Spec.Containers)
	return &out
}

var resizable = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}

func keepLimits(want *v1.ResourceRequirements, now v1.ResourceRequirements) {
	for _, name := range resizable {
		if have, ok := now.Limits[name]; ok && amount(want.Limits, name) == 0 {
			want.Limits = cloned(want.Limits)
			want.Limits[name] = have
		}
	}
}

// withResource returns have with one resource taken from want.
func withResource(have, want v1.ResourceRequirements, name v1.ResourceName) v1.ResourceRequirements {
	out := have
	out.Requests, out.Limits = cloned(have.Requests), cloned(have.Limits)
	for _, l := range []struct{ to, from v1.ResourceList }{{out.Requests, want.Requests}, {out.Limits, want.Limits}} {
		if q, ok := l.from[name]; ok {
			l.to[name] = q
		} else {
			delete(l.to, name)
		}
	}
	return out
}

func cloned(list v1.ResourceList) v1.ResourceList {
	out := make(v1.ResourceList, len(list))
	for name, q := range list {
		out[name] = q
	}
	return out
}

// reported returns spec with the limits that a runtime reports. It skips limits that the
// container does not have itself, because they are the pod's.
func reported(r *observed.Resources, spec v1.ResourceRequirements) v1.ResourceRequirements {
	if r == nil {
		return spec
	}
	out := spec
	out.Limits = cloned(spec.Limits)
	if _, own := spec.Limits[v1.ResourceCPU]; own && r.MilliCPULimit != nil && *r.MilliCPULimit > 0 {
		out.Limits[v1.ResourceCPU] = *resource.NewMilliQuantity(*r.MilliCPULimit, resource.DecimalSI)
	}
	if _, own := spec.Limits[v1.ResourceMemory]; own && r.MemoryLimit != nil {
		out.Limits[v1.ResourceMemory] = *resource.NewQuantity(*r.MemoryLimit, resource.BinarySI)
	}
	return out
}

func containerOf(pod *v1.Pod, u actions.Update) *v1.Container {
	if u.Init {
		return &pod.Spec.InitContainers[u.Index]
	}
	return &pod.Spec.Containers[u.Index]
}

// notImplemented reports whether a runtime lacks a call. Some runtimes return only a text.
func notImplemented(err error) bool {
	return cri.IsUnimplemented(err) ||
		status.Code(err) == codes.Unknown && strings.Contains(err.Error(), "not implemented")
}

// Cgroups changes the cgroups of pods, which are the parents of their containers' cgroups.
type Cgroups interface {
	// SetPodCgroup sets the limits and reservations of a pod's cgroup. It must be idempotent.
	SetPodCgroup(ctx context.Context, pod *v1.Pod, needs cgroups.Needs) error
	// PodMemoryUsage returns the memory usage of a pod's cgroup in bytes.
	PodMemoryUsage(ctx context.Context, pod *v1.Pod) (int64, error)
}
