package request

import (
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerResources is what a container's cgroup is given.
func (b *Builder) ContainerResources(pod *v1.Pod, c *v1.Container) *runtimeapi.LinuxContainerResources {
	return containerResources(pod, c, b.cfg.Node)
}

// CgroupResources turns CPU in thousandths and memory in bytes into what a cgroup
// is given; a limit of zero is none.
func (b *Builder) CgroupResources(cpuRequest, cpuLimit, memoryLimit int64) *runtimeapi.LinuxContainerResources {
	return linuxResources(cpuRequest, cpuLimit, memoryLimit, b.cfg.Node)
}

// Overhead is what a pod's RuntimeClass takes beside its containers, nil without
// any.
func (b *Builder) Overhead(pod *v1.Pod) *runtimeapi.LinuxContainerResources {
	return overheadResources(pod, b.cfg.Node)
}
