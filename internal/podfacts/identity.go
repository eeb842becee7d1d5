package podfacts

import (
	v1 "k8s.io/api/core/v1"
)

// Annotations that mark pods of a kubelet's own sources.
const (
	ConfigSource = "kubernetes.io/config.source"
	ConfigMirror = "kubernetes.io/config.mirror"
	ConfigSeen   = "kubernetes.io/config.seen"
	ConfigHash   = "kubernetes.io/config.hash"
)

// SourceAPI is the value of ConfigSource for pods of the API server.
const SourceAPI = "api"

// FullName returns "<name>_<namespace>".
func FullName(pod *v1.Pod) string { return pod.Name + "_" + pod.Namespace }

// IsStatic reports whether the pod comes from a source other than the API server.
func IsStatic(pod *v1.Pod) bool {
	source, ok := pod.Annotations[ConfigSource]
	return ok && source != SourceAPI
}

// IsMirror reports whether the pod is the API server's copy of a static pod.
func IsMirror(pod *v1.Pod) bool {
	_, ok := pod.Annotations[ConfigMirror]
	return ok
}

// IsTerminalPhase reports whether a phase is final.
func IsTerminalPhase(phase v1.PodPhase) bool {
	return phase == v1.PodSucceeded || phase == v1.PodFailed
}

// IsSidecar reports whether an init container is restartable (KEP-753).
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}
