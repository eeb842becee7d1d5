package cri

import (
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// kubeAPIVersion is the version that kubelet and runtime exchange. It has been the same since the
// first CRI.
const kubeAPIVersion = "0.1.0"

// checkReply returns an error if the reply lacks a mandatory field that callers rely on. Lists are
// not checked, so that one invalid entry does not hide the rest.
func checkReply(call string, reply any) error {
	field, problem := faultOf(reply)
	if field == "" {
		return nil
	}
	return &ReplyError{Call: call, Field: field, Problem: problem}
}

// faultOf returns the first invalid field of a reply and the problem, or "".
func faultOf(reply any) (field, problem string) {
	switch r := reply.(type) {
	case *runtimeapi.VersionResponse:
		return versionFault(r)
	case *runtimeapi.StatusResponse:
		return conditionsFault(r.GetStatus().GetConditions())
	case *runtimeapi.RunPodSandboxResponse:
		return empty("pod_sandbox_id", r.GetPodSandboxId())
	case *runtimeapi.PodSandboxStatusResponse:
		return sandboxFault(r.GetStatus())
	case *runtimeapi.CreateContainerResponse:
		return empty("container_id", r.GetContainerId())
	case *runtimeapi.ContainerStatusResponse:
		return containerFault(r.GetStatus())
	case *runtimeapi.ExecResponse:
		return empty("url", r.GetUrl())
	case *runtimeapi.AttachResponse:
		return empty("url", r.GetUrl())
	case *runtimeapi.PortForwardResponse:
		return empty("url", r.GetUrl())
	case *runtimeapi.ContainerStatsResponse:
		return absent("stats", r.GetStats() == nil)
	case *runtimeapi.PodSandboxStatsResponse:
		return absent("stats", r.GetStats() == nil)
	case *runtimeapi.ImageStatusResponse:
		return imageFault(r.GetImage())
	case *runtimeapi.PullImageResponse:
		return empty("image_ref", r.GetImageRef())
	}
	return "", ""
}

func versionFault(r *runtimeapi.VersionResponse) (field, problem string) {
	if field, problem = empty("version", r.GetVersion(), "runtime_name", r.GetRuntimeName(),
		"runtime_version", r.GetRuntimeVersion(), "runtime_api_version", r.GetRuntimeApiVersion()); field != "" {
		return field, problem
	}
	if r.GetVersion() != kubeAPIVersion {
		return "version", fmt.Sprintf("is %q, want %q", r.GetVersion(), kubeAPIVersion)
	}
	return "", ""
}

func conditionsFault(conditions []*runtimeapi.RuntimeCondition) (field, problem string) {
	for _, want := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		if conditionOf(conditions, want) == nil {
			return "status.conditions", "has no " + want
		}
	}
	return "", ""
}

func conditionOf(conditions []*runtimeapi.RuntimeCondition, kind string) *runtimeapi.RuntimeCondition {
	for _, c := range conditions {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}

func sandboxFault(s *runtimeapi.PodSandboxStatus) (field, problem string) {
	switch m := s.GetMetadata(); {
	case s == nil:
		return absent("status", true)
	case m == nil:
		return absent("status.metadata", true)
	case s.GetCreatedAt() == 0:
		return "status.created_at", "is zero"
	default:
		return empty("status.id", s.GetId(), "status.metadata.name", m.GetName(),
			"status.metadata.namespace", m.GetNamespace(), "status.metadata.uid", m.GetUid())
	}
}

func containerFault(s *runtimeapi.ContainerStatus) (field, problem string) {
	switch {
	case s == nil:
		return absent("status", true)
	case s.GetMetadata() == nil:
		return absent("status.metadata", true)
	case s.GetCreatedAt() == 0:
		return "status.created_at", "is zero"
	default:
		return empty("status.id", s.GetId(), "status.metadata.name", s.GetMetadata().GetName(),
			"status.image.image", s.GetImage().GetImage(), "status.image_ref", s.GetImageRef())
	}
}

// imageFault accepts a nil image, which means that the image is not present.
func imageFault(i *runtimeapi.Image) (field, problem string) {
	switch {
	case i == nil:
		return "", ""
	case i.GetSize() == 0:
		return "image.size", "is zero"
	default:
		return empty("image.id", i.GetId())
	}
}

// empty takes pairs of field name and value, and returns the name of the first empty value.
func empty(fields ...string) (field, problem string) {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i+1] == "" {
			return fields[i], "is empty"
		}
	}
	return "", ""
}

func absent(name string, is bool) (field, problem string) {
	if !is {
		return "", ""
	}
	return name, "is missing"
}
