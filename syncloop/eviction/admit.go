package eviction

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// Admitter rejects pods that a node under pressure would soon evict. pressure is called for each
// pod; Manager.Pressure is such a function.
func Admitter(pressure func() Pressure) syncloop.Admitter {
	return syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		if why := refusal(pod, pressure()); why != nil {
			return why
		}
		return nil
	})
}

// refusal returns the reason why a pod may not start under pressure, or nil if it may. Critical
// pods may start. If only memory is short, pods with requests and pods that tolerate the
// memory-pressure taint may start, too.
func refusal(pod *v1.Pod, p Pressure) *syncloop.Rejection {
	if p == (Pressure{}) || podfacts.IsCritical(pod) {
		return nil
	}
	if p == (Pressure{Memory: true}) && (podfacts.QOSClass(pod) != v1.PodQOSBestEffort || toleratesMemoryPressure(pod)) {
		return nil
	}
	return &syncloop.Rejection{Reason: ReasonEvicted, Message: fmt.Sprintf("The node had condition: %v. ", p.names())}
}

// toleratesMemoryPressure reports whether a pod tolerates the taint
// node.kubernetes.io/memory-pressure, without value, with the effect NoSchedule.
func toleratesMemoryPressure(pod *v1.Pod) bool {
	for _, t := range pod.Spec.Tolerations {
		if t.Effect != "" && t.Effect != v1.TaintEffectNoSchedule || t.Key != "" && t.Key != v1.TaintNodeMemoryPressure {
			continue
		}
		if t.Operator == v1.TolerationOpExists || t.Key != "" && t.Value == "" && (t.Operator == "" || t.Operator == v1.TolerationOpEqual) {
			return true
		}
	}
	return false
}
