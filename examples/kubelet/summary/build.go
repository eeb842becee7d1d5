package summary

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/cri/stats"
	"github.com/podwright/podwright/volume/usage"
)

// build converts a reading to a Summary. It is pure.
func build(in *reading) *statsapi.Summary {
	node := statsapi.NodeStats{
		NodeName: in.name, StartTime: metav1.NewTime(in.machine.Boot),
		CPU: cpuOf(in.node, in.cores), Memory: memoryOf(in.node), Swap: swapOf(in.node),
	}
	for _, s := range in.systems {
		c := statsapi.ContainerStats{Name: s.name, StartTime: metav1.NewTime(s.created), CPU: cpuOf(s.usage, s.cores), Memory: memoryOf(s.usage), Swap: swapOf(s.usage)}
		if c.Memory != nil {
			c.Memory.AvailableBytes = s.usage.Memory.Available(in.machine.Memory)
		}
		if in.part == All {
			c.IO = ioOf(s.usage)
		}
		node.SystemContainers = append(node.SystemContainers, c)
	}
	out := &statsapi.Summary{Node: node, Pods: make([]statsapi.PodStats, 0, len(in.pods))}
	if in.part != CPUAndMemory {
		out.Node.IO, out.Node.Network, out.Node.Fs = ioOf(in.node), networkOf(in.network), fsOf(in.disk)
		out.Node.Runtime = &statsapi.RuntimeStats{ImageFs: fsOf(in.images), ContainerFs: fsOf(in.containers)}
		if in.maxProcesses != nil || in.runs != nil {
			out.Node.Rlimit = &statsapi.RlimitStats{Time: metav1.NewTime(in.at), MaxPID: signed(in.maxProcesses), NumOfRunningProcesses: signed(in.runs)}
		}
	}
	for i := range in.pods {
		out.Pods = append(out.Pods, in.pod(&in.pods[i]))
	}
	return out
}

func (in *reading) pod(p *stats.Pod) statsapi.PodStats {
	s := statsapi.PodStats{
		PodRef:    statsapi.PodReference{Name: p.Name, Namespace: p.Namespace, UID: p.UID},
		StartTime: metav1.NewTime(p.Created),
		CPU:       cpuOf(p.Usage, p.NanoCores), Memory: memoryOf(p.Usage), Swap: swapOf(p.Usage),
	}
	have := in.storage[types.UID(p.UID)]
	for i := range p.Containers {
		s.Containers = append(s.Containers, in.container(&p.Containers[i], have))
	}
	if in.part != All {
		return s
	}
	s.IO, s.Network = ioOf(p.Usage), networkOf(p.Network)
	for i := range have.volumes {
		v := &have.volumes[i]
		s.VolumeStats = append(s.VolumeStats, statsapi.VolumeStats{Name: v.name, PVCRef: v.claimRef(p.Namespace), FsStats: volumeOf(v.usage)})
	}
	s.EphemeralStorage = in.ephemeral(&s, have)
	s.ProcessStats = processesOf(p)
	return s
}

func (in *reading) container(c *stats.Container, have storage) statsapi.ContainerStats {
	s := statsapi.ContainerStats{
		Name: c.Name, StartTime: metav1.NewTime(c.Created),
		CPU: cpuOf(c.Usage, c.NanoCores), Memory: memoryOf(c.Usage), Swap: swapOf(c.Usage),
	}
	if in.part != All {
		return s
	}
	s.IO, s.Rootfs = ioOf(c.Usage), fsOf(c.Writable)
	if u, ok := have.logs[c.Name]; ok {
		logs := volumeOf(u)
		s.Logs = &logs
	}
	return s
}

// ephemeral returns a pod's usage of the node's disk: the writable layers and logs of its
// containers, its local volumes, its /etc/hosts and its termination messages. It omits unknown
// parts, and returns nil if all of them are unknown.
func (in *reading) ephemeral(s *statsapi.PodStats, have storage) *statsapi.FsStats {
	var bytes, inodes uint64
	known := false
	add := func(f *statsapi.FsStats) {
		if f == nil || f.UsedBytes == nil {
			return
		}
		known, bytes = true, bytes+*f.UsedBytes
		if f.InodesUsed != nil {
			inodes += *f.InodesUsed
		}
	}
	for i := range s.Containers {
		add(s.Containers[i].Rootfs)
		add(s.Containers[i].Logs)
	}
	for i := range have.volumes {
		if have.volumes[i].local {
			add(&s.VolumeStats[i].FsStats)
		}
	}
	if have.files.inodes > 0 {
		add(&statsapi.FsStats{UsedBytes: &have.files.bytes, InodesUsed: &have.files.inodes})
	}
	if !known {
		return nil
	}
	f := &statsapi.FsStats{Time: metav1.NewTime(in.at), UsedBytes: &bytes, InodesUsed: &inodes}
	if in.disk != nil {
		f.CapacityBytes, f.AvailableBytes, f.Inodes, f.InodesFree = in.disk.Capacity, in.disk.Available, in.disk.Inodes, in.disk.InodesFree
	}
	return f
}

// processesOf returns the number of processes without the sandbox's, or nil if it is unknown for a
// container.
func processesOf(p *stats.Pod) *statsapi.ProcessStats {
	var n uint64
	for i := range p.Containers {
		if p.Containers[i].Usage.Processes == nil {
			if p.Usage.Processes == nil || p.Cgroup != "" {
				return nil
			}
			return &statsapi.ProcessStats{ProcessCount: p.Usage.Processes} // reported by the runtime
		}
		n += *p.Containers[i].Usage.Processes
	}
	return &statsapi.ProcessStats{ProcessCount: &n}
}

func cpuOf(u stats.Usage, cores *uint64) *statsapi.CPUStats {
	if u.CPU.Total == nil {
		return nil
	}
	return &statsapi.CPUStats{Time: metav1.NewTime(u.Time), UsageNanoCores: cores, UsageCoreNanoSeconds: new(uint64(*u.CPU.Total)), PSI: psiOf(u.CPU.Pressure)}
}

// memoryOf reports available memory only where there is a limit.
func memoryOf(u stats.Usage) *statsapi.MemoryStats {
	m := u.Memory
	if m.Usage == nil && m.WorkingSet == nil {
		return nil
	}
	return &statsapi.MemoryStats{
		Time: metav1.NewTime(u.Time), AvailableBytes: m.Available(nil), UsageBytes: m.Usage, WorkingSetBytes: m.WorkingSet, RSSBytes: m.RSS,
		PageFaults: m.PageFaults, MajorPageFaults: m.MajorPageFaults, PSI: psiOf(m.Pressure),
	}
}

func swapOf(u stats.Usage) *statsapi.SwapStats {
	if u.Swap.Usage == nil {
		return nil
	}
	s := &statsapi.SwapStats{Time: metav1.NewTime(u.Time), SwapUsageBytes: u.Swap.Usage}
	if u.Swap.Limit != nil {
		s.SwapAvailableBytes = new(*u.Swap.Limit - min(*u.Swap.Limit, *u.Swap.Usage))
	}
	return s
}

func ioOf(u stats.Usage) *statsapi.IOStats {
	if u.IO == nil {
		return nil
	}
	return &statsapi.IOStats{Time: metav1.NewTime(u.Time), PSI: psiOf(u.IO)}
}

func psiOf(p *stats.Pressure) *statsapi.PSIStats {
	if p == nil {
		return nil
	}
	return &statsapi.PSIStats{Full: psiData(p.Full), Some: psiData(p.Some)}
}

func psiData(s stats.Stall) statsapi.PSIData {
	return statsapi.PSIData{Total: uint64(s.Total / time.Nanosecond), Avg10: s.Avg10, Avg60: s.Avg60, Avg300: s.Avg300}
}

func networkOf(n *stats.Network) *statsapi.NetworkStats {
	if n == nil {
		return nil
	}
	out := &statsapi.NetworkStats{Time: metav1.NewTime(n.Time)}
	for i := range n.Interfaces {
		out.Interfaces = append(out.Interfaces, interfaceOf(&n.Interfaces[i]))
	}
	if i := n.Find(); i != nil {
		out.InterfaceStats = interfaceOf(i)
	}
	return out
}

func interfaceOf(i *stats.Interface) statsapi.InterfaceStats {
	return statsapi.InterfaceStats{Name: i.Name, RxBytes: i.Received.Bytes, RxErrors: i.Received.Errors, TxBytes: i.Sent.Bytes, TxErrors: i.Sent.Errors}
}

func fsOf(f *stats.Filesystem) *statsapi.FsStats {
	if f == nil {
		return nil
	}
	return &statsapi.FsStats{
		Time: metav1.NewTime(f.Time), AvailableBytes: f.Available, CapacityBytes: f.Capacity, UsedBytes: f.Used,
		InodesFree: f.InodesFree, Inodes: f.Inodes, InodesUsed: f.InodesUsed,
	}
}

// volumeOf converts a measurement. Without a limit of files it has no inode capacity.
func volumeOf(u usage.Usage) statsapi.FsStats {
	f := statsapi.FsStats{
		Time: metav1.NewTime(u.Measured), AvailableBytes: unsigned(u.Available), CapacityBytes: unsigned(u.Capacity), UsedBytes: unsigned(u.Bytes), InodesUsed: unsigned(u.Files),
	}
	if u.TotalFiles > 0 {
		f.Inodes, f.InodesFree = unsigned(u.TotalFiles), unsigned(u.FreeFiles)
	}
	return f
}

func unsigned(n int64) *uint64 {
	if n < 0 {
		return nil
	}
	return new(uint64(n))
}

func signed(n *uint64) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}
