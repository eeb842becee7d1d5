package stats

import (
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Merge adds the runtime's figures to pods; either list may be nil. A figure from a cgroup stays:
// it is newer, and the pod and its containers were measured by the same clock. A pod without any
// figures gets the sums of its containers, for figures that all of them have.
func Merge(pods []Pod, containers []*runtimeapi.ContainerStats, sandboxes []*runtimeapi.PodSandboxStats) {
	byID, bySandbox := map[string][]*runtimeapi.ContainerStats{}, map[string]*runtimeapi.PodSandboxStats{}
	add := func(list []*runtimeapi.ContainerStats) {
		for _, c := range list {
			id := c.GetAttributes().GetId()
			byID[id] = append(byID[id], c)
		}
	}
	add(containers)
	for _, s := range sandboxes {
		bySandbox[s.GetAttributes().GetId()] = s
		add(s.GetLinux().GetContainers())
	}
	for i := range pods {
		p := &pods[i]
		for k := range p.Containers {
			for _, s := range byID[p.Containers[k].ID] {
				p.Containers[k].merge(s)
			}
		}
		p.merge(bySandbox[p.Sandbox].GetLinux())
	}
}

func (c *Container) merge(s *runtimeapi.ContainerStats) {
	c.Usage.merge(s.GetCpu(), s.GetMemory(), s.GetIo())
	if swap := s.GetSwap(); stamped(swap.GetTimestamp()) && c.Usage.Swap.Usage == nil {
		c.Usage.Swap.Usage = value(swap.SwapUsageBytes)
	}
	if c.NanoCores == nil {
		c.NanoCores = nanoCores(s.GetCpu())
	}
	if c.Writable == nil {
		c.Writable = FilesystemOf(s.GetWritableLayer())
	}
}

func (p *Pod) merge(s *runtimeapi.LinuxPodSandboxStats) {
	if s != nil {
		p.Usage.merge(s.Cpu, s.Memory, s.Io)
		if p.NanoCores == nil {
			p.NanoCores = nanoCores(s.Cpu)
		}
		if p.Usage.Processes == nil && stamped(s.Process.GetTimestamp()) {
			p.Usage.Processes = value(s.Process.ProcessCount)
		}
		if p.Network == nil {
			p.Network = networkOf(s.Network)
		}
	}
	if p.Usage.CPU.Total == nil && p.Usage.Memory.Usage == nil && p.Usage.Memory.WorkingSet == nil {
		p.Usage = sum(p.Containers)
	}
}

func (u *Usage) merge(cpu *runtimeapi.CpuUsage, memory *runtimeapi.MemoryUsage, io *runtimeapi.IoUsage) {
	if stamped(cpu.GetTimestamp()) {
		if u.CPU.Total == nil {
			if u.CPU.Total = duration(value(cpu.UsageCoreNanoSeconds), time.Nanosecond); u.CPU.Total != nil || u.Time.IsZero() {
				u.Time = time.Unix(0, cpu.Timestamp)
			}
		}
		if u.CPU.Pressure == nil {
			u.CPU.Pressure = pressureOf(cpu.Psi)
		}
	}
	if stamped(memory.GetTimestamp()) {
		m := &u.Memory
		if u.Time.IsZero() {
			u.Time = time.Unix(0, memory.Timestamp)
		}
		for to, from := range map[**uint64]*runtimeapi.UInt64Value{
			&m.Usage: memory.UsageBytes, &m.WorkingSet: memory.WorkingSetBytes, &m.RSS: memory.RssBytes,
			&m.PageFaults: memory.PageFaults, &m.MajorPageFaults: memory.MajorPageFaults,
		} {
			if *to == nil {
				*to = value(from)
			}
		}
		// Runtimes report no available memory for containers without a limit.
		if left := memory.AvailableBytes.GetValue(); m.Limit == nil && left > 0 && m.WorkingSet != nil {
			m.Limit = new(left + *m.WorkingSet)
		}
		if m.Pressure == nil {
			m.Pressure = pressureOf(memory.Psi)
		}
	}
	if u.IO == nil && stamped(io.GetTimestamp()) {
		u.IO = pressureOf(io.Psi)
	}
}

// stamped reports whether figures were measured: unmeasured ones have no time.
func stamped(nanoseconds int64) bool { return nanoseconds > 0 }

func value(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return new(v.Value)
}

// nanoCores returns the runtime's rate. Runtimes report zero before they can compute it.
func nanoCores(cpu *runtimeapi.CpuUsage) *uint64 {
	if !stamped(cpu.GetTimestamp()) || cpu.UsageNanoCores.GetValue() == 0 {
		return nil
	}
	return value(cpu.UsageNanoCores)
}

// FilesystemOf converts a runtime's filesystem usage. It returns nil if the usage has no time.
func FilesystemOf(f *runtimeapi.FilesystemUsage) *Filesystem {
	if !stamped(f.GetTimestamp()) {
		return nil
	}
	return &Filesystem{Time: time.Unix(0, f.Timestamp), Mountpoint: f.GetFsId().GetMountpoint(), Used: value(f.UsedBytes), InodesUsed: value(f.InodesUsed)}
}

func networkOf(n *runtimeapi.NetworkUsage) *Network {
	if n == nil || n.DefaultInterface == nil && len(n.Interfaces) == 0 {
		return nil
	}
	out := &Network{Time: time.Unix(0, n.Timestamp)}
	if !stamped(n.Timestamp) { // containerd leaves it out
		out.Time = time.Now()
	}
	add := func(i *runtimeapi.NetworkInterfaceUsage, isDefault bool) {
		if i != nil {
			out.Interfaces = append(out.Interfaces, Interface{
				Name: i.Name, Default: isDefault,
				Received: Traffic{Bytes: value(i.RxBytes), Errors: value(i.RxErrors)}, Sent: Traffic{Bytes: value(i.TxBytes), Errors: value(i.TxErrors)},
			})
		}
	}
	add(n.DefaultInterface, true)
	for _, i := range n.Interfaces {
		add(i, false)
	}
	return out
}

func pressureOf(p *runtimeapi.PsiStats) *Pressure {
	if p == nil || p.Some == nil {
		return nil
	}
	return &Pressure{Some: stallOf(p.Some), Full: stallOf(p.Full)}
}

func stallOf(d *runtimeapi.PsiData) Stall {
	return Stall{Total: time.Duration(d.GetTotal()), Avg10: d.GetAvg10(), Avg60: d.GetAvg60(), Avg300: d.GetAvg300()}
}

// sum adds the usage of containers. A figure that one of them lacks is nil.
func sum(containers []Container) Usage {
	var out Usage
	for i, c := range containers {
		u := c.Usage
		if i == 0 {
			out = Usage{
				Time: u.Time, CPU: CPU{Total: u.CPU.Total}, Swap: Swap{Usage: u.Swap.Usage}, Processes: u.Processes,
				Memory: Memory{Usage: u.Memory.Usage, WorkingSet: u.Memory.WorkingSet, RSS: u.Memory.RSS, PageFaults: u.Memory.PageFaults, MajorPageFaults: u.Memory.MajorPageFaults},
			}
			continue
		}
		if u.Time.Before(out.Time) {
			out.Time = u.Time
		}
		out.CPU.Total = plus(out.CPU.Total, u.CPU.Total)
		m := &out.Memory
		m.Usage, m.WorkingSet, m.RSS = plus(m.Usage, u.Memory.Usage), plus(m.WorkingSet, u.Memory.WorkingSet), plus(m.RSS, u.Memory.RSS)
		m.PageFaults, m.MajorPageFaults = plus(m.PageFaults, u.Memory.PageFaults), plus(m.MajorPageFaults, u.Memory.MajorPageFaults)
		out.Swap.Usage, out.Processes = plus(out.Swap.Usage, u.Swap.Usage), plus(out.Processes, u.Processes)
	}
	return out
}

// plus returns a+b, or nil if either is nil.
func plus[N uint64 | time.Duration](a, b *N) *N {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}
