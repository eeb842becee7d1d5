package request

import runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

// CgroupResources turns CPU in thousandths and memory in bytes into what the
// cgroup of a pod or container is given when it is resized in place (KEP-1287); a
// negative request means the limit, and a limit of zero none.
func (b *Builder) CgroupResources(cpuRequest, cpuLimit, memoryLimit int64) *runtimeapi.LinuxContainerResources {
	return b.cfg.Node.linux(amounts{requestMilli: cpuRequest, limitMilli: cpuLimit, memory: memoryLimit})
}
