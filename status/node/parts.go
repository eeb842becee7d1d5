package node

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

const (
	defaultMaxImages = 50
	maxNames         = 5
)

// setAddresses sets the addresses of the node.
func setAddresses(status *v1.NodeStatus, facts *Facts) {
	if facts.Addresses != nil {
		status.Addresses = slices.Clone(facts.Addresses)
	}
}

// setVersions sets the versions of the node's software. It clears the version of kube-proxy,
// which is unknown.
func setVersions(status *v1.NodeStatus, facts *Facts) {
	v := facts.Versions
	if v == nil {
		return
	}
	info := &status.NodeInfo
	info.KernelVersion, info.OSImage = v.Kernel, v.OSImage
	info.OperatingSystem, info.Architecture = v.OS, v.Architecture
	info.KubeletVersion = v.Agent
	info.KubeProxyVersion = "" //lint:ignore SA1019 what an older agent has left is to go
	if v.Runtime != "" {
		info.ContainerRuntimeVersion = v.Runtime
	}
}

// setEndpoints sets the port of the agent's API.
func setEndpoints(status *v1.NodeStatus, facts *Facts) {
	status.DaemonEndpoints.KubeletEndpoint.Port = facts.Port
}

// setImages sets the largest images, the largest first, with up to five names each, digests
// before tags.
func setImages(status *v1.NodeStatus, facts *Facts) {
	if facts.Images == nil {
		return
	}
	images := make([]v1.ContainerImage, 0, len(facts.Images))
	for _, image := range facts.Images {
		names := slices.Concat(image.Digests, image.Tags)
		images = append(images, v1.ContainerImage{Names: names[:min(len(names), maxNames)], SizeBytes: image.Bytes})
	}
	slices.SortFunc(images, func(a, b v1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), slices.Compare(a.Names, b.Names))
	})
	if facts.MaxImages >= 0 {
		images = images[:min(len(images), cmp.Or(facts.MaxImages, defaultMaxImages))]
	}
	status.Images = images
}

// setHandlers sets the runtime's handlers, sorted by name.
func setHandlers(status *v1.NodeStatus, facts *Facts) {
	if facts.Handlers == nil {
		return
	}
	handlers := make([]v1.NodeRuntimeHandler, 0, len(facts.Handlers))
	for _, h := range facts.Handlers {
		handlers = append(handlers, v1.NodeRuntimeHandler{Name: h.Name, Features: &v1.NodeRuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: &h.RecursiveReadOnlyMounts, UserNamespaces: &h.UserNamespaces,
		}})
	}
	slices.SortFunc(handlers, func(a, b v1.NodeRuntimeHandler) int { return strings.Compare(a.Name, b.Name) })
	status.RuntimeHandlers = handlers
}

// setFeatures sets the runtime's features and the agent's declared features, sorted.
func setFeatures(status *v1.NodeStatus, facts *Facts) {
	if facts.Features != nil {
		supported := facts.Features.SupplementalGroupsPolicy
		status.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: &supported}
	}
	if facts.Declared != nil {
		status.DeclaredFeatures = slices.Sorted(slices.Values(facts.Declared))
	}
}

// setVolumesInUse sets the volumes that must not be detached, sorted.
func setVolumesInUse(status *v1.NodeStatus, facts *Facts) {
	if facts.VolumesInUse != nil {
		status.VolumesInUse = slices.Sorted(slices.Values(facts.VolumesInUse))
	}
}
