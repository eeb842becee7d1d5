package actions

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/pleg/observed"
)

// Amounts are the resources of a container that can change while it is running. A zero amount is
// not set.
type Amounts struct {
	// CPURequest and CPULimit are in millicores.
	CPURequest, CPULimit int64
	// MemoryRequest and MemoryLimit are in bytes.
	MemoryRequest, MemoryLimit int64
}

type target struct {
	current *observed.Container
	init    bool
	index   int
}

// resize compares the desired and the applied amounts of a running container. It queues updates
// in place. If the resize policy of a changed resource requires a restart, it kills the container
// instead and returns true.
func (d *decision) resize(c *v1.Container, t target) (restart bool) {
	if d.in.Actuated == nil || d.deleted {
		return false
	}
	have, recorded := d.actuated(c)
	want := d.wanted(c, have)
	if want == have {
		return false
	}
	against := have
	if !recorded {
		against = reportedOr(want, t.current.Resources)
	}
	if memoryDiffers(want, against) && restartsOn(c, v1.ResourceMemory) ||
		cpuDiffers(want, against) && restartsOn(c, v1.ResourceCPU) {
		d.kill(t.current, "", "Container "+c.Name+" resize requires restart", true)
		d.out.UpdatePodResources = true
		return true
	}
	u := Update{ID: t.current.ID, Name: c.Name, Init: t.init, Index: t.index, Want: want, Have: have}
	if memoryDiffers(want, have) {
		d.out.UpdateMemory = queue(d.out.UpdateMemory, u, grows(want.MemoryLimit, have.MemoryLimit, want.MemoryRequest, have.MemoryRequest))
	}
	if cpuDiffers(want, have) {
		d.out.UpdateCPU = queue(d.out.UpdateCPU, u, grows(want.CPULimit, have.CPULimit, want.CPURequest, have.CPURequest))
	}
	return false
}

// resizeStopped lists the containers that do not keep running and whose resources differ from the
// recorded ones. Their next instance has the new resources, and needs a pod cgroup with them.
func (d *decision) resizeStopped() {
	if d.in.Actuated == nil || d.deleted || d.out.Over() || len(d.out.Reset) > 0 {
		return
	}
	d.listStopped(d.in.Pod.Spec.InitContainers, d.out.StartInit)
	d.listStopped(d.in.Pod.Spec.Containers, d.out.StartRegular)
	d.out.UpdatePodResources = d.out.UpdatePodResources || len(d.out.UpdateStopped) > 0
}

func (d *decision) listStopped(list []v1.Container, starts []int) {
	for i := range list {
		c := &list[i]
		newest := d.in.Status.Newest(c.Name)
		if newest != nil && newest.State == observed.StateRunning && !d.out.CreateSandbox && !slices.Contains(starts, i) {
			continue
		}
		if have, recorded := d.actuated(c); recorded && d.wanted(c, have) != have {
			d.out.UpdateStopped = append(d.out.UpdateStopped, c.Name)
		}
	}
}

// grows reports whether a change is an increase of the limit, or of the request if the limit is
// equal.
func grows(wantLimit, haveLimit, wantRequest, haveRequest int64) bool {
	return cmp.Or(cmp.Compare(wantLimit, haveLimit), cmp.Compare(wantRequest, haveRequest)) > 0
}

// queue orders resizes: decreases first, because they free room for increases.
func queue(list []Update, u Update, grows bool) []Update {
	if grows {
		return append(list, u)
	}
	return append([]Update{u}, list...)
}

// actuated returns the recorded amounts of a container, and whether there is a record.
func (d *decision) actuated(c *v1.Container) (Amounts, bool) {
	record, ok := d.in.Actuated.Containers[c.Name]
	if !ok {
		return Amounts{}, false
	}
	return amounts(&record, d.in.Actuated.Pod), true
}

// wanted returns the desired amounts of a container. A limit cannot be removed from a running
// container, so a removed limit keeps its value.
func (d *decision) wanted(c *v1.Container, have Amounts) Amounts {
	return keepLimits(amounts(&c.Resources, d.in.Pod.Spec.Resources), have)
}

func keepLimits(want, have Amounts) Amounts {
	if want.CPULimit == 0 {
		want.CPULimit = have.CPULimit
	}
	if want.MemoryLimit == 0 {
		want.MemoryLimit = have.MemoryLimit
	}
	return want
}

// podLevelChanged reports whether the pod-level resources (KEP-2837) differ from those last
// applied.
func (d *decision) podLevelChanged() bool {
	if d.in.Actuated == nil || d.in.Pod.Spec.Resources == nil || d.deleted {
		return false
	}
	have := amounts(d.in.Actuated.Pod, nil)
	return keepLimits(amounts(d.in.Pod.Spec.Resources, nil), have) != have
}

// amounts converts resources. Unset limits come from the pod level.
func amounts(r, pod *v1.ResourceRequirements) Amounts {
	var a Amounts
	for _, level := range []*v1.ResourceRequirements{r, pod} {
		if level == nil {
			continue
		}
		if q, ok := level.Limits[v1.ResourceCPU]; ok && a.CPULimit == 0 {
			a.CPULimit = q.MilliValue()
		}
		if q, ok := level.Limits[v1.ResourceMemory]; ok && a.MemoryLimit == 0 {
			a.MemoryLimit = q.Value()
		}
	}
	if r != nil {
		a.CPURequest = r.Requests.Cpu().MilliValue()
		a.MemoryRequest = r.Requests.Memory().Value()
	}
	return a
}

func memoryDiffers(a, b Amounts) bool {
	return a.MemoryLimit != b.MemoryLimit || a.MemoryRequest != b.MemoryRequest
}

func cpuDiffers(a, b Amounts) bool {
	return a.CPULimit != b.CPULimit || a.CPURequest != b.CPURequest
}

func restartsOn(c *v1.Container, name v1.ResourceName) bool {
	for _, p := range c.ResizePolicy {
		if p.ResourceName == name {
			return p.RestartPolicy == v1.RestartContainer
		}
	}
	return false
}

// reportedOr returns the amounts that the runtime reports. An amount is as wanted if it is not
// reported, or if the report is the rounded form of the wanted amount. A reported limit of 0 is
// ignored: a container with exclusive CPUs has none.
func reportedOr(want Amounts, r *observed.Resources) Amounts {
	if r == nil {
		return want
	}
	have := want
	if l := r.MilliCPULimit; l != nil && *l != 0 && *l != max(want.CPULimit, minMilliCPULimit) {
		have.CPULimit = *l
	}
	if q := r.MilliCPURequest; q != nil && *q != 0 && *q != visibleRequest(want) {
		have.CPURequest = *q
	}
	if m := r.MemoryLimit; m != nil && *m != 0 {
		have.MemoryLimit = *m
	}
	return have
}

// minMilliCPULimit is the kernel's minimum: 1 ms per period of 100 ms.
const minMilliCPULimit = 10

// visibleRequest returns a CPU request as converted back from cgroup shares.
func visibleRequest(a Amounts) int64 {
	request := a.CPURequest
	if request == 0 {
		request = a.CPULimit
	}
	return int64(cgroups.Shares(request)*1000+1023) / 1024
}
