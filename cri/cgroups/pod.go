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

// Config has the settings for all cgroups of a node. With its zero value only the pods' own limits
// apply.
type Config struct {
	// Period is the period of CPU quotas, KubeletConfiguration.cpuCFSQuotaPeriod. Default:
	// 100 ms.
	Period time.Duration
	// NoQuota disables the enforcement of CPU limits (KubeletConfiguration.cpuCFSQuota is false).
	NoQuota bool
	// PodPids is the limit of processes and threads per pod, KubeletConfiguration.podPidsLimit.
	// Zero or less means no limit.
	PodPids int64
	// HugePageSizes are the node's huge page sizes in the kernel's format: "2MB".
	HugePageSizes []string
	// ExclusiveCPUs reports whether a pod has exclusive CPUs. Such a pod gets no quota, which
	// would only throttle it. Optional: without it no pod has.
	ExclusiveCPUs func(pod *v1.Pod) bool
}

func (c *Config) period() time.Duration {
	if c.Period <= 0 {
		return defaultPeriod
	}
	return c.Period
}

// Needs are the total resources of a pod: the sum of its regular containers and sidecars, or an
// init container with the sidecars before it if that is more. Resources of the pod as a whole
// override them (KEP-2837). Overhead is added. CPU is in thousandths, memory in bytes.
type Needs struct {
	// CPURequest and MemoryRequest are zero without a request.
	CPURequest, MemoryRequest int64
	// CPULimit and MemoryLimit are zero without a limit. One unlimited container makes the pod
	// unlimited.
	CPULimit, MemoryLimit int64
}

// NeedsOf returns a pod's needs. Missing requests must already be set from the limits, as the API
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

// ForPod returns the values of a pod's cgroup.
func ForPod(c Config, pod *v1.Pod) Values { return ForNeeds(c, pod, NeedsOf(pod)) }

// ForNeeds returns the values of a pod's cgroup for needs that differ from its spec, as during a
// resize. A BestEffort pod has the minimum of CPU shares, even with overhead.
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

// isLimited reports whether the pod as a whole, or each of its containers, has a limit.
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

// hugePages returns the pod's limit for each page size of the node; zero bytes without one.
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

// HugePageSize returns the kernel's format of a resource's page size: "2MB" for hugepages-2Mi. ok
// is false for other resources.
func HugePageSize(name v1.ResourceName) (size string, ok bool) {
	text, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
	if !ok {
		return "", false
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return "", false
	}
	return pageSize(q.Value()), true
}

// pageSize formats a page size in bytes as the kernel does: in the largest unit that divides it.
func pageSize(bytes int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	for len(units) > 1 && bytes > 0 && bytes%1024 == 0 {
		bytes, units = bytes/1024, units[1:]
	}
	return strconv.FormatInt(bytes, 10) + units[0]
}

// ForClass returns the values of a QoS class's cgroup. pods are the node's unfinished pods of all
// classes. Burstable has the shares of the sum of its pods' CPU requests, BestEffort the minimum.
// Huge pages are unlimited, because the pods have their own limits. For Guaranteed use ForNode.
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
		v.HugePages[size] = unlimitedHugePages
	}
	return v
}

// ResourcePids is the resource name for the number of processes. The API has no such resource.
const ResourcePids v1.ResourceName = "pid"

// ForNode returns the values of the cgroup of all pods, or of a cgroup that the node reserves for
// itself: the CPU, memory, processes and huge pages in list. Resources missing in list stay
// unchanged.
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

// Without returns a node's capacity minus the reservations. If the reservations of a resource
// exceed the capacity, the error contains its name.
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
				return nil, fmt.Errorf("cgroups: the reservations of %s exceed the node's capacity of %s", name, had.String())
			}
			left[name] = have
		}
	}
	return left, nil
}
