package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podfacts"
)

// ReasonEvicted is the reason in the status and event of evicted pods, and of pods rejected for pressure.
const ReasonEvicted = "Evicted"

// Annotations of an eviction event. Lists are separated by commas.
const (
	offendingContainers      = "offending_containers"
	offendingContainersUsage = "offending_containers_usage"
	offendingPod             = "offending_pod"
	offendingPodUsage        = "offending_pod_usage"
	starvedResource          = "starved_resource"
)

// hardGrace is the grace period in seconds for a hard threshold.
const hardGrace = 1

// Victim is a pod to evict, with the reason.
type Victim struct {
	Pod *v1.Pod
	// Signal is the signal that runs short, or EmptyDirLimit and the like for a pod over its own
	// limit.
	Signal Signal
	// GraceSeconds is the grace period: 1 s for hard thresholds and storage limits.
	GraceSeconds int64
	Message      string
	Annotations  map[string]string
	// Time is the time of the decision. Measured is the time of the reading, zero for storage
	// limits.
	Time, Measured time.Time
}

// Apply writes the eviction into a pod's status. A pod that was evicted for a shortage of the node
// gets the condition DisruptionTarget; a pod over its own limit does not.
func (v Victim) Apply(status *v1.PodStatus) {
	status.Phase, status.Reason, status.Message = v1.PodFailed, ReasonEvicted, v.Message
	if v.Signal.order() < 0 {
		return
	}
	podfacts.Disrupt(status, v.Pod.Generation, v.Message, v.Time)
}

// KillTimeout is the limit for Config.Kill: 1.5 times the grace period, but at least 10 s.
func (v Victim) KillTimeout() time.Duration {
	return max(10*time.Second, time.Duration(v.GraceSeconds)*1500*time.Millisecond)
}

func (p Policy) victim(pod *v1.Pod, met Met, u Usage, now time.Time) Victim {
	v := Victim{Pod: pod, Signal: met.Threshold.Signal, GraceSeconds: hardGrace, Time: now, Measured: met.Reading.Time}
	if !met.Threshold.Hard() {
		v.GraceSeconds = p.MaxPodGrace
		if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
			v.GraceSeconds = min(v.GraceSeconds, *own)
		}
		v.GraceSeconds = max(v.GraceSeconds, hardGrace)
	}
	name := met.Threshold.Signal.Resource()
	least := met.Threshold.Value.Of(met.Reading.Capacity)
	var text strings.Builder
	fmt.Fprintf(&text, "The node was low on resource: %s. Threshold quantity: %s, available: %s. ", name, quantity(name, least), quantity(name, met.Reading.Available))
	v.Annotations = map[string]string{starvedResource: string(name)}
	addOffenders(&text, v.Annotations, pod, name, u.Pods[pod.UID])
	v.Message = text.String()
	return v
}

// addOffenders adds the containers that exceed their requests, and the pod if it exceeds its pod-level
// request.
func addOffenders(text *strings.Builder, annotations map[string]string, pod *v1.Pod, name v1.ResourceName, u PodUsage) {
	var names, usages []string
	addIfExceeded := func(kind, object string, used uint64, request resource.Quantity) bool {
		if used == 0 || request.CmpInt64(signed(used)) >= 0 {
			return false
		}
		fmt.Fprintf(text, "%s %s was using %s, request is %s, has larger consumption of %s. ", kind, object, quantity(name, used), request.String(), name)
		return true
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if used := containerUse(name, u.Containers[c.Name]); addIfExceeded("Container", c.Name, used, c.Resources.Requests[name]) {
			names, usages = append(names, c.Name), append(usages, quantity(name, used))
		}
	}
	if len(names) > 0 {
		annotations[offendingContainers], annotations[offendingContainersUsage] = strings.Join(names, ","), strings.Join(usages, ",")
	}
	if pod.Spec.Resources == nil || name != v1.ResourceMemory || u.Memory == nil {
		return
	}
	if request, ok := pod.Spec.Resources.Requests[name]; ok && addIfExceeded("Pod", pod.Name, *u.Memory, request) {
		annotations[offendingPod], annotations[offendingPodUsage] = pod.Name, quantity(name, *u.Memory)
	}
}

// containerUse returns a container's usage of a resource. Unavailable figures count as 0.
func containerUse(name v1.ResourceName, u ContainerUsage) uint64 {
	memory, _ := available(u.Memory)
	root, _ := available(u.Root.Bytes)
	logs, _ := available(u.Logs.Bytes)
	switch name {
	case v1.ResourceMemory:
		return memory
	case v1.ResourceEphemeralStorage:
		return saturated(root, logs)
	default:
		return 0
	}
}

// quantity formats bytes with binary suffixes and counts with decimal ones.
func quantity(name v1.ResourceName, n uint64) string {
	format := resource.BinarySI
	if name == resourceInodes || name == resourcePIDs {
		format = resource.DecimalSI
	}
	return resource.NewQuantity(signed(n), format).String()
}

// byIdentity orders pods so that decisions do not depend on the order of the list.
func byIdentity(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
