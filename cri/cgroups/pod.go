package cgroups

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"

	"github.com/podwright/podwright/internal/podfacts"
)

// Config says what holds for all cgroups of a node. Its zero value has no limits but
// those of the pods.
type Config struct {
	// Period is the time to which a quota refers, KubeletConfiguration.cpuCFSQuotaPeriod.
	// Zero means DefaultPeriod.
	Period time.Duration
	// NoQuota leaves CPU limits unenforced: KubeletConfiguration.cpuCFSQuota is false.
	NoQuota bool
	// PodPids is how many processes and threads a pod may have,
	// KubeletConfiguration.podPidsLimit. Zero and less mean no limit.
	PodPids int64
	// HugePageSizes are those that the node has, as the kernel writes them: "2MB".
	HugePageSizes []string
	// ExclusiveCPUs tells whether a pod has CPUs of its own, which a quota would only
	// throttle. nil means none has.
	ExclusiveCPUs func(pod *v1.Pod) bool
}

func (c *Config) period() time.Duration {
	if c.Period <= 0 {
		return DefaultPeriod
	}
	return c.Period
}

// Needs are what a pod as a whole is to get: what its regular containers and sidecars
// need together, or an init container with the sidecars before it if that is more; what
// the pod asks for as a whole wins (KEP-2837). Overhead comes on top. CPU is in
// thousandths, memory in bytes.
type Needs struct {
	// CPURequest and MemoryRequest are zero when nothing is requested.
	CPURequest, MemoryRequest int64
	// CPULimit and MemoryLimit are zero when there is no limit: one container without
	// leaves the pod without.
	CPULimit, MemoryLimit int64
}

// NeedsOf are a pod's. Missing requests must have been set from the limits, as the API
// server and podsource do.
func NeedsOf(pod *v1.Pod) Needs {
	requests := helper.PodRequests(pod, helper.PodResourcesOptions{})
	n := Needs{CPURequest: requests.Cpu().MilliValue(), MemoryRequest: requests.Memory().Value()}
	limits := helper.PodLimits(pod, helper.PodResourcesOptions{})
	if isLimited(pod, v1.ResourceCPU) {
		n.CPULimit = limits.Cpu().MilliValue()
	}
	if isLimited(pod, v1.ResourceMemory) {
		n.MemoryLimit = limits.Memory().Value()
	}
	return n
}

// ForPod are the values of a pod's cgroup.
func ForPod(c Config, pod *v1.Pod) Values { return ForNeeds(c, pod, NeedsOf(pod)) }

// ForNeeds are the values of a pod's cgroup while it has other resources than it asks
// for, as in the middle of a resize. A BestEffort pod weighs nothing, whatever its overhead.
func ForNeeds(c Config, pod *v1.Pod, n Needs) Values {
	v := Values{Shares: Shares(n.CPURequest), Memory: n.MemoryLimit, Pids: max(c.PodPids, 0), HugePages: c.hugePages(pod)}
	if podfacts.QOSClass(pod) == v1.PodQOSBestEffort {
		v.Shares = minShares
	}
	if n.CPULimit > 0 {
		v.Period, v.Quota = uint64(c.period().Microseconds()), c.quota(pod, n.CPULimit)
	}
	return v
}

func (c *Config) quota(pod *v1.Pod, milli int64) int64 {
	if c.NoQuota || c.ExclusiveCPUs != nil && c.ExclusiveCPUs(pod) {
		return Unlimited
	}
	return Quota(milli, c.period())
}

// isLimited tells whether a pod as a whole has a limit, or each of its containers has.
func isLimited(pod *v1.Pod, name v1.ResourceName) bool {
	if r := pod.Spec.Resources; r != nil {
		if q := r.Limits[name]; !q.IsZero() {
			return true
		}
	}
	unlimited := func(c v1.Container) bool {
		q := c.Resources.Limits[name]
		return q.IsZero()
	}
	return !slices.ContainsFunc(pod.Spec.InitContainers, unlimited) && !slices.ContainsFunc(pod.Spec.Containers, unlimited)
}

// hugePages are the limits of each size that the node has; zero bytes without one.
func (c *Config) hugePages(pod *v1.Pod) map[string]int64 {
	limits, out := helper.PodLimits(pod, helper.PodResourcesOptions{}), map[string]int64{}
	for _, size := range c.HugePageSizes {
		out[size] = 0
	}
	for name, q := range limits {
		if size, ok := HugePageSize(name); ok && slices.Contains(c.HugePageSizes, size) {
			out[size] = q.Value()
		}
	}
	return out
}

// HugePageSize is how the kernel writes the size of the pages of a resource: "2MB" for
// hugepages-2Mi. It is false for other resources.
func HugePageSize(name v1.ResourceName) (size string, ok bool) {
	text, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
	if !ok {
		return "", false
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return "", false
	}
	return PageSize(q.Value()), true
}

// PageSize is how the kernel writes a size of bytes: in the largest unit that divides it.
func PageSize(bytes int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	for len(units) > 1 && bytes > 0 && bytes%1024 == 0 {
		bytes, units = bytes/1024, units[1:]
	}
	return strconv.FormatInt(bytes, 10) + units[0]
}

// ForClass are the values of the cgroup of a class, with the pods of the node that are
// not over, of whatever class they are. Burstable pods weigh what they request together,
// BestEffort pods nothing; huge pages are the single pods' matter. That of Guaranteed
// pods is ForNode's.
func ForClass(c Config, class v1.PodQOSClass, pods []*v1.Pod) Values {
	v := Values{Shares: minShares}
	if class == v1.PodQOSBurstable {
		var milli int64
		for _, pod := range pods {
			if podfacts.QOSClass(pod) == class {
				requests := helper.PodRequests(pod, helper.PodResourcesOptions{})
				milli += requests.Cpu().MilliValue()
			}
		}
		v.Shares = Shares(milli)
	}
	v.HugePages = map[string]int64{}
	for _, size := range c.HugePageSizes {
		v.HugePages[size] = UnlimitedHugePages
	}
	return v
}

// ResourcePids is the resource in which a node's processes are counted here: it is no
// resource of the API.
const ResourcePids v1.ResourceName = "pid"

// ForNode are the values of the cgroup of all pods, or of one that the node reserves for
// itself: what list has of CPU, memory, processes and huge pages. What list does not have
// stays as it is.
func ForNode(list v1.ResourceList) Values {
	v := Values{}
	for name, q := range list {
		switch size, huge := HugePageSize(name); {
		case name == v1.ResourceCPU:
			v.Shares = Shares(q.MilliValue())
		case name == v1.ResourceMemory:
			v.Memory = q.Value()
		case name == ResourcePids:
			v.Pids = q.Value()
		case huge:
			if v.HugePages == nil {
				v.HugePages = map[string]int64{}
			}
			v.HugePages[size] = q.Value()
		}
	}
	return v
}

// Without is what is left of a node's capacity for its pods: less what is reserved. A
// reservation of more than there is, is an error that names the resource.
func Without(capacity v1.ResourceList, reserved ...v1.ResourceList) (v1.ResourceList, error) {
	left := capacity.DeepCopy()
	for _, list := range reserved {
		for name, q := range list {
			have, ok := left[name]
			if !ok {
				continue
			}
			have.Sub(q)
			if have.Sign() < 0 {
				had := capacity[name]
				return nil, fmt.Errorf("cgroups: the reservations of %s exceed the node's %s", name, had.String())
			}
			left[name] = have
		}
	}
	return left, nil
}
