package podsyncer

import (
	v1 "k8s.io/api/core/v1"
)

// The reasons of the Kubernetes events that a Syncer records.
const (
	ReasonNetworkNotReady = "NetworkNotReady"
	ReasonFailedSync      = "FailedSync"
	ReasonFailedKillPod   = "FailedKillPod"
	ReasonFailedPrepare   = "FailedToMakePodDataDirectories"
	ReasonResizeCompleted = "ResizeCompleted"
)

// recorder takes Kubernetes events.
type recorder func(ref v1.ObjectReference, eventtype, reason, message string)

// warn records that something went wrong with a pod.
func (r recorder) warn(pod *v1.Pod, reason string, err error) {
	r(reference(pod), v1.EventTypeWarning, reason, err.Error())
}

// normal records what has become of a pod.
func (r recorder) normal(pod *v1.Pod, reason, message string) {
	r(reference(pod), v1.EventTypeNormal, reason, message)
}

func reference(pod *v1.Pod) v1.ObjectReference {
	return v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1",
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
}
