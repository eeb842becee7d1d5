package podfacts

import v1 "k8s.io/api/core/v1"

// Names and priority by which Kubernetes knows pods that a node or a cluster
// cannot do without.
const (
	nodeCritical     = "system-node-critical"
	clusterCritical  = "system-cluster-critical"
	criticalPriority = 2_000_000_000
)

// IsCritical tells whether a pod must run if anything does: a static pod, or one
// of a system priority.
func IsCritical(pod *v1.Pod) bool {
	class := pod.Spec.PriorityClassName
	return IsStatic(pod) || IsMirror(pod) || class == nodeCritical || class == clusterCritical ||
		pod.Spec.Priority != nil && *pod.Spec.Priority >= criticalPriority
}

// IsNodeCritical tells whether the node cannot do without a pod.
func IsNodeCritical(pod *v1.Pod) bool { return pod.Spec.PriorityClassName == nodeCritical }
