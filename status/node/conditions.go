package node

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition returns a pointer to the condition of a type in status, or nil.
func Condition(status *v1.NodeStatus, kind v1.NodeConditionType) *v1.NodeCondition {
	if status == nil {
		return nil
	}
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// Ready reports whether the condition Ready is True.
func Ready(status *v1.NodeStatus) bool {
	c := Condition(status, v1.NodeReady)
	return c != nil && c.Status == v1.ConditionTrue
}

func byType(a, b v1.NodeCondition) int { return strings.Compare(string(a.Type), string(b.Type)) }

// SetCondition adds a condition or replaces all conditions of its type. Its heartbeat is Now, and
// its transition time changes only with its status. It is a helper for Setters.
func SetCondition(status *v1.NodeStatus, facts *Facts, c v1.NodeCondition) {
	c.LastHeartbeatTime = metav1.NewTime(facts.Now).Rfc3339Copy() // the precision of the API
	c.LastTransitionTime = c.LastHeartbeatTime
	old := Condition(status, c.Type)
	if old == nil {
		status.Conditions = append(status.Conditions, c)
		return
	}
	if old.Status == c.Status && !old.LastTransitionTime.IsZero() {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
	first := slices.IndexFunc(status.Conditions, func(other v1.NodeCondition) bool { return other.Type == c.Type })
	rest := slices.DeleteFunc(status.Conditions[first+1:], func(other v1.NodeCondition) bool { return other.Type == c.Type })
	status.Conditions = status.Conditions[:first+1+len(rest)]
}

type pressure struct {
	kind v1.NodeConditionType
	// The reason, message and event while the resource is short, and while it is not.
	shortReason, shortMessage, shortEvent string
	fineReason, fineMessage, fineEvent    string
}

func memoryPressure() pressure {
	return pressure{
		kind:        v1.NodeMemoryPressure,
		shortReason: "KubeletHasInsufficientMemory", shortMessage: "kubelet has insufficient memory available", shortEvent: "NodeHasInsufficientMemory",
		fineReason: "KubeletHasSufficientMemory", fineMessage: "kubelet has sufficient memory available", fineEvent: "NodeHasSufficientMemory",
	}
}

func diskPressure() pressure {
	return pressure{
		kind:        v1.NodeDiskPressure,
		shortReason: "KubeletHasDiskPressure", shortMessage: "kubelet has disk pressure", shortEvent: "NodeHasDiskPressure",
		fineReason: "KubeletHasNoDiskPressure", fineMessage: "kubelet has no disk pressure", fineEvent: "NodeHasNoDiskPressure",
	}
}

func pidPressure() pressure {
	return pressure{
		kind:        v1.NodePIDPressure,
		shortReason: "KubeletHasInsufficientPID", shortMessage: "kubelet has insufficient PID available", shortEvent: "NodeHasInsufficientPID",
		fineReason: "KubeletHasSufficientPID", fineMessage: "kubelet has sufficient PID available", fineEvent: "NodeHasSufficientPID",
	}
}

func (p pressure) set(status *v1.NodeStatus, facts *Facts, short bool) {
	c := v1.NodeCondition{Type: p.kind, Status: v1.ConditionFalse, Reason: p.fineReason, Message: p.fineMessage}
	if short {
		c.Status, c.Reason, c.Message = v1.ConditionTrue, p.shortReason, p.shortMessage
	}
	SetCondition(status, facts, c)
}

// setPressure sets the conditions MemoryPressure, DiskPressure and PIDPressure.
func setPressure(status *v1.NodeStatus, facts *Facts) {
	if facts.Pressure == nil {
		return
	}
	memoryPressure().set(status, facts, facts.Pressure.Memory)
	diskPressure().set(status, facts, facts.Pressure.Disk)
	pidPressure().set(status, facts, facts.Pressure.PID)
}

// setReady sets the condition Ready. It depends on the capacity from earlier setters.
func setReady(status *v1.NodeStatus, facts *Facts) {
	c := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"}
	if why := notReadyReasons(status, facts); len(why) > 0 {
		c.Status, c.Reason, c.Message = v1.ConditionFalse, "KubeletNotReady", aggregate(why)
	}
	SetCondition(status, facts, c)
}

// notReadyReasons returns the reasons in order, without duplicates.
func notReadyReasons(status *v1.NodeStatus, facts *Facts) (reasons []string) {
	for _, reason := range facts.NotReady {
		if reason != "" && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	needed := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods}
	if !facts.NoLocalStorage {
		needed = append(needed, v1.ResourceEphemeralStorage)
	}
	var missing []string
	for _, name := range needed {
		if _, ok := status.Capacity[name]; !ok {
			missing = append(missing, string(name))
		}
	}
	if len(missing) > 0 {
		reasons = append(reasons, "missing node capacity for resources: "+strings.Join(missing, ", "))
	}
	return reasons
}

// aggregate joins reasons as an aggregate of errors does.
func aggregate(reasons []string) string {
	if len(reasons) == 1 {
		return reasons[0]
	}
	return "[" + strings.Join(reasons, ", ") + "]"
}
