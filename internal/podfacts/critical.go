package podfacts

import v1 "k8s.io/api/core/v1"

// Names and priority of pods that are critical for a node or a cluster.
const (
	nodeCritical     = "system-node-critical"
	clusterCritical  = "system-cluster-critical"
	criticalPriority = 2_000_000_000
)

// IsCritical reports whether a pod is critical: a static pod, a mirror pod, or a pod with a
// system priority.
func IsCritical(pod *v1.Pod) bool {
	class := pod.Spec.PriorityClassName
	return IsStatic(pod) || IsMirror(pod) || class == nodeCritical || class == clusterCritical ||
		pod.Spec.Priority != nil && *pod.Spec.Priority >= criticalPriority
}

// IsNodeCritical reports whether a pod is critical for the node.
func IsNodeCritical(pod *v1.Pod) bool { return pod.Spec.PriorityClassName == nodeCritical }
