package eviction

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// Admitter refuses pods that a node under pressure would have to evict again. pressure is
// asked at each pod: Manager.Pressure, for one.
func Admitter(pressure func() Pressure) syncloop.Admitter {
	return syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		if why := Refusal(pod, pressure()); why != nil {
			return why
		}
		return nil
	})
}

// Refusal is why a pod may not start under pressure, nil if it may. Critical pods may. If
// memory is all that is short, so may pods with requests, and those that tolerate the
// taint of that.
func Refusal(pod *v1.Pod, p Pressure) *syncloop.Rejection {
	if p == (Pressure{}) || podfacts.IsCritical(pod) {
		return nil
	}
	if p == (Pressure{Memory: true}) && (podfacts.QOSClass(pod) != v1.PodQOSBestEffort || toleratesMemoryPressure(pod)) {
		return nil
	}
	return &syncloop.Rejection{Reason: Reason, Message: fmt.Sprintf("The node had condition: %v. ", p.names())}
}

// toleratesMemoryPressure is about the taint node.kubernetes.io/memory-pressure, which has
// no value, with the effect NoSchedule.
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
