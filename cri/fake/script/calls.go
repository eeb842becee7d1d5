package script

import (
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Calls lists the names of all calls, as rules name them.
func Calls() []string {
	return []string{
		"Version", "Status", "RuntimeConfig", "UpdateRuntimeConfig",
		"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "PodSandboxStatus", "ListPodSandbox",
		"UpdatePodSandboxResources",
		"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "ContainerStatus",
		"ListContainers", "UpdateContainerResources", "ReopenContainerLog", "CheckpointContainer",
		callExecSync, "Exec", "Attach", "PortForward",
		"ContainerStats", "ListContainerStats", "PodSandboxStats", "ListPodSandboxStats",
		"ListMetricDescriptors", "ListPodSandboxMetrics", callEvents,
		"ListImages", "ImageStatus", "ImageFsInfo", "PullImage", "RemoveImage",
	}
}

const (
	callEvents   = "GetContainerEvents"
	callExecSync = "ExecSync"
)

// aboutNothing tells whether a call is about no object.
func aboutNothing(call string) bool {
	return slices.Contains([]string{
		"Version", "Status", "RuntimeConfig", "UpdateRuntimeConfig", "ListPodSandbox", "ListContainers",
		"ListContainerStats", "ListPodSandboxStats", "ListMetricDescriptors", "ListPodSandboxMetrics", callEvents,
		"ListImages", "ImageFsInfo",
	}, call)
}

func knownSubject(subject string) bool {
	special := []string{AnyCall, AnyEvent, EventCreated, EventStarted, EventStopped, EventDeleted, Run}
	return slices.Contains(special, subject) || slices.Contains(Calls(), subject)
}

// eventSubject names the type of an event.
func eventSubject(what runtimeapi.ContainerEventType) string {
	switch what {
	case runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT:
		return EventCreated
	case runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		return EventStarted
	case runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT:
		return EventStopped
	case runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT:
		return EventDeleted
	}
	return AnyEvent
}

// covers tells whether a rule about subject is about what happens: a call by its
// name, an event by its type, or a run.
func covers(subject, happens string) bool {
	switch subject {
	case AnyCall:
		return subjectGroup(happens)&calls != 0
	case AnyEvent:
		return subjectGroup(happens) == events
	}
	return subject == happens
}
