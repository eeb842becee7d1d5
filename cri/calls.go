package cri

import "time"

// DefaultRequestTimeout is what ClientConfig.RequestTimeout is when zero.
const DefaultRequestTimeout = 2 * time.Minute

// bound says how long a call may take, in terms of the request timeout T and
// the time that the request itself asks for.
type bound int8

const (
	boundT         bound = iota // T
	boundTwice                  // 2T
	boundPlus                   // T + own
	boundPlusIfOwn              // T + own; none when own is zero
	boundAtLeast                // max(own, T)
	boundNone                   // only the caller's context
)

// limit returns the deadline as a duration, 0 for none.
func (b bound) limit(t, own time.Duration) time.Duration {
	switch b {
	case boundTwice:
		return 2 * t
	case boundPlus:
		return t + own
	case boundPlusIfOwn:
		if own == 0 {
			return 0
		}
		return t + own
	case boundAtLeast:
		return max(own, t)
	case boundNone:
		return 0
	default:
		return t
	}
}

// callID names a row of the table of calls.
type callID int8

const (
	callVersion callID = iota
	callStatus
	callRuntimeConfig
	callUpdateRuntimeConfig
	callRunPodSandbox
	callStopPodSandbox
	callRemovePodSandbox
	callPodSandboxStatus
	callListPodSandbox
	callUpdatePodSandboxResources
	callCreateContainer
	callStartContainer
	callStopContainer
	callRemoveContainer
	callContainerStatus
	callListContainers
	callUpdateContainerResources
	callReopenContainerLog
	callCheckpointContainer
	callExecSync
	callExec
	callAttach
	callPortForward
	callContainerStats
	callListContainerStats
	callPodSandboxStats
	callListPodSandboxStats
	callListMetricDescriptors
	callListPodSandboxMetrics
	callGetContainerEvents
	callListImages
	callImageStatus
	callPullImage
	callRemoveImage
	callImageFsInfo
	numCalls
)

// callSpec is what is fixed about a call.
type callSpec struct {
	// name is the call's name in the CRI.
	name string
	// operation is its name in metrics, the same as upstream's.
	operation string
	bound     bound
}

// spec is the one place that says how long each call may take.
func (id callID) spec() callSpec {
	return [numCalls]callSpec{
		callVersion:                   {"Version", "version", boundT},
		callStatus:                    {"Status", "status", boundT},
		callRuntimeConfig:             {"RuntimeConfig", "runtime_config", boundT},
		callUpdateRuntimeConfig:       {"UpdateRuntimeConfig", "update_runtime_config", boundT},
		callRunPodSandbox:             {"RunPodSandbox", "run_podsandbox", boundTwice},
		callStopPodSandbox:            {"StopPodSandbox", "stop_podsandbox", boundT},
		callRemovePodSandbox:          {"RemovePodSandbox", "remove_podsandbox", boundT},
		callPodSandboxStatus:          {"PodSandboxStatus", "podsandbox_status", boundT},
		callListPodSandbox:            {"ListPodSandbox", "list_podsandbox", boundT},
		callUpdatePodSandboxResources: {"UpdatePodSandboxResources", "update_podsandbox_resources", boundT},
		callCreateContainer:           {"CreateContainer", "create_container", boundT},
		callStartContainer:            {"StartContainer", "start_container", boundT},
		callStopContainer:             {"StopContainer", "stop_container", boundPlus},
		callRemoveContainer:           {"RemoveContainer", "remove_container", boundT},
		callContainerStatus:           {"ContainerStatus", "container_status", boundT},
		callListContainers:            {"ListContainers", "list_containers", boundT},
		callUpdateContainerResources:  {"UpdateContainerResources", "update_container", boundT},
		callReopenContainerLog:        {"ReopenContainerLog", "reopen_container_log", boundT},
		callCheckpointContainer:       {"CheckpointContainer", "checkpoint_container", boundAtLeast},
		callExecSync:                  {"ExecSync", "exec_sync", boundPlusIfOwn},
		callExec:                      {"Exec", "exec", boundT},
		callAttach:                    {"Attach", "attach", boundT},
		callPortForward:               {"PortForward", "port_forward", boundT},
		callContainerStats:            {"ContainerStats", "container_stats", boundT},
		callListContainerStats:        {"ListContainerStats", "list_container_stats", boundT},
		callPodSandboxStats:           {"PodSandboxStats", "podsandbox_stats", boundT},
		callListPodSandboxStats:       {"ListPodSandboxStats", "list_podsandbox_stats", boundT},
		callListMetricDescriptors:     {"ListMetricDescriptors", "list_metric_descriptors", boundT},
		callListPodSandboxMetrics:     {"ListPodSandboxMetrics", "list_podsandbox_metrics", boundT},
		callGetContainerEvents:        {"GetContainerEvents", "get_container_events", boundNone},
		callListImages:                {"ListImages", "list_images", boundT},
		callImageStatus:               {"ImageStatus", "image_status", boundT},
		callPullImage:                 {"PullImage", "pull_image", boundNone},
		callRemoveImage:               {"RemoveImage", "remove_image", boundT},
		callImageFsInfo:               {"ImageFsInfo", "image_fs_info", boundT},
	}[id]
}
