package fake

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Usage of every running container. The figures are not measured: they are plausible and grow with
// time.
const (
	usedNanoCores  = 10_000_000 // ten millicores
	usedMemory     = 8 << 20
	usedWritable   = 16 << 10
	usedInodes     = 4
	usedBytesInOut = 1000 // network bytes per second
)

func amount(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }

// cpuTime returns the CPU time of one container that has run for d.
func cpuTime(d time.Duration) uint64 {
	return uint64(max(0, d.Milliseconds())) * (usedNanoCores / 1000)
}

// stats returns the figures of a container at a moment. It leaves out CPU and memory if the
// container does not run.
func (c *container) stats(filesystem string, now time.Time) *runtimeapi.ContainerStats {
	s := &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id: c.id, Metadata: containerMetadata(c.config.Metadata), Labels: c.config.Labels, Annotations: c.config.Annotations,
		},
		WritableLayer: &runtimeapi.FilesystemUsage{
			Timestamp: now.UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: filesystem},
			UsedBytes: amount(0), InodesUsed: amount(0),
		},
	}
	if c.startedAt != 0 {
		s.WritableLayer.UsedBytes, s.WritableLayer.InodesUsed = amount(usedWritable), amount(usedInodes)
	}
	if !c.running() {
		return s
	}
	s.Cpu = cpuUsage(now, cpuTime(now.Sub(time.Unix(0, c.startedAt))), 1)
	s.Memory = memoryUsage(now, 1)
	if limit := c.resources.GetMemoryLimitInBytes(); limit > usedMemory {
		s.Memory.AvailableBytes = amount(uint64(limit) - usedMemory)
	}
	s.Swap = &runtimeapi.SwapUsage{Timestamp: now.UnixNano(), SwapUsageBytes: amount(0)}
	return s
}

func cpuUsage(now time.Time, total, containers uint64) *runtimeapi.CpuUsage {
	return &runtimeapi.CpuUsage{
		Timestamp: now.UnixNano(), UsageCoreNanoSeconds: amount(total), UsageNanoCores: amount(containers * usedNanoCores),
	}
}

func memoryUsage(now time.Time, containers uint64) *runtimeapi.MemoryUsage {
	used := containers * usedMemory
	return &runtimeapi.MemoryUsage{
		Timestamp: now.UnixNano(), WorkingSetBytes: amount(used), UsageBytes: amount(used), RssBytes: amount(used),
		PageFaults: amount(containers * 100), MajorPageFaults: amount(0),
	}
}

// stats returns the sums of the sandbox's running containers.
func (b *sandbox) stats(filesystem string, now time.Time) *runtimeapi.PodSandboxStats {
	linux := &runtimeapi.LinuxPodSandboxStats{}
	var cpu, running uint64
	for c := range b.containers.all() {
		if !c.running() {
			continue
		}
		running++
		cpu += cpuTime(now.Sub(time.Unix(0, c.startedAt)))
		linux.Containers = append(linux.Containers, c.stats(filesystem, now))
	}
	linux.Cpu, linux.Memory = cpuUsage(now, cpu, running), memoryUsage(now, running)
	linux.Process = &runtimeapi.ProcessUsage{Timestamp: now.UnixNano(), ProcessCount: amount(running)}
	if !b.hostNet {
		passed := uint64(max(0, now.Sub(time.Unix(0, b.createdAt)).Milliseconds())) * usedBytesInOut / 1000
		linux.Network = &runtimeapi.NetworkUsage{
			Timestamp: now.UnixNano(),
			DefaultInterface: &runtimeapi.NetworkInterfaceUsage{
				Name: "eth0", RxBytes: amount(passed), RxErrors: amount(0), TxBytes: amount(passed), TxErrors: amount(0),
			},
		}
	}
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{
			Id: b.id, Metadata: b.name.metadata(), Labels: b.config.Labels, Annotations: b.config.Annotations,
		},
		Linux: linux,
	}
}

// ContainerStats returns plausible figures of a running container.
func (rt *Runtime) ContainerStats(ctx context.Context, containerID string) (*runtimeapi.ContainerStats, error) {
	request := &runtimeapi.ContainerStatsRequest{ContainerId: containerID}
	if err := rt.enter(ctx, "ContainerStats", request); err != nil {
		return nil, err
	}
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	c := rt.store.containers[containerID]
	if c == nil {
		return nil, noContainer(containerID)
	}
	if !c.running() {
		return nil, status.Errorf(codes.Unknown, "unexpected metrics response: container %q does not run", containerID)
	}
	return c.stats(rt.cfg.ContainerFilesystem, rt.now()), nil
}

// ListContainerStats returns plausible figures of all containers, without CPU and memory for those
// not running.
func (rt *Runtime) ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	request := &runtimeapi.ListContainerStatsRequest{Filter: filter}
	if err := rt.enter(ctx, "ListContainerStats", request); err != nil {
		return nil, err
	}
	wanted := &runtimeapi.ContainerFilter{
		Id: filter.GetId(), PodSandboxId: filter.GetPodSandboxId(), LabelSelector: filter.GetLabelSelector(),
	}
	now := rt.now()
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	out := []*runtimeapi.ContainerStats{}
	for _, c := range rt.selectContainers(wanted) {
		out = append(out, c.stats(rt.cfg.ContainerFilesystem, now))
	}
	return out, nil
}

// PodSandboxStats returns plausible figures of a ready sandbox.
func (rt *Runtime) PodSandboxStats(ctx context.Context, sandboxID string) (*runtimeapi.PodSandboxStats, error) {
	request := &runtimeapi.PodSandboxStatsRequest{PodSandboxId: sandboxID}
	if err := rt.enter(ctx, "PodSandboxStats", request); err != nil {
		return nil, err
	}
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	b := rt.store.sandboxes[sandboxID]
	if b == nil {
		return nil, noSandbox(sandboxID)
	}
	if !b.ready {
		return nil, status.Errorf(codes.Unavailable, "failed to get pod sandbox stats since sandbox container %q is not in ready state: unavailable", sandboxID)
	}
	return b.stats(rt.cfg.ContainerFilesystem, rt.now()), nil
}

// ListPodSandboxStats returns plausible figures of the ready sandboxes.
func (rt *Runtime) ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	request := &runtimeapi.ListPodSandboxStatsRequest{Filter: filter}
	if err := rt.enter(ctx, "ListPodSandboxStats", request); err != nil {
		return nil, err
	}
	ready := &runtimeapi.PodSandboxFilter{
		Id: filter.GetId(), LabelSelector: filter.GetLabelSelector(),
		State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	}
	now := rt.now()
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	out := []*runtimeapi.PodSandboxStats{}
	for _, b := range rt.selectSandboxes(ready) {
		out = append(out, b.stats(rt.cfg.ContainerFilesystem, now))
	}
	return out, nil
}
