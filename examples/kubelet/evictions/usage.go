package evictions

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/syncloop/eviction"
)

// Signals returns a node's readings from a Summary. It omits signals with missing figures.
func Signals(s *statsapi.Summary) map[eviction.Signal]eviction.Reading {
	out := map[eviction.Signal]eviction.Reading{}
	add := func(signal eviction.Signal, available, capacity *uint64, at metav1.Time) {
		if available != nil && capacity != nil {
			out[signal] = eviction.Reading{Available: *available, Capacity: *capacity, Time: at.Time}
		}
	}
	memory := func(signal eviction.Signal, m *statsapi.MemoryStats) {
		if m != nil && m.AvailableBytes != nil && m.WorkingSetBytes != nil {
			add(signal, m.AvailableBytes, new(*m.AvailableBytes+*m.WorkingSetBytes), m.Time)
		}
	}
	disk := func(bytes, inodes eviction.Signal, f *statsapi.FsStats) {
		if f != nil {
			add(bytes, f.AvailableBytes, f.CapacityBytes, f.Time)
			add(inodes, f.InodesFree, f.Inodes, f.Time)
		}
	}
	memory(eviction.MemoryAvailable, s.Node.Memory)
	for i := range s.Node.SystemContainers {
		if c := &s.Node.SystemContainers[i]; c.Name == statsapi.SystemContainerPods {
			memory(eviction.AllocatableMemoryAvailable, c.Memory)
		}
	}
	disk(eviction.NodeFSAvailable, eviction.NodeFSInodesFree, s.Node.Fs)
	if r := s.Node.Runtime; r != nil {
		disk(eviction.ImageFSAvailable, eviction.ImageFSInodesFree, r.ImageFs)
		disk(eviction.ContainerFSAvailable, eviction.ContainerFSInodesFree, r.ContainerFs)
	}
	if r := s.Node.Rlimit; r != nil && r.MaxPID != nil && r.NumOfRunningProcesses != nil {
		most, runs := uint64(max(*r.MaxPID, 0)), uint64(max(*r.NumOfRunningProcesses, 0))
		add(eviction.PIDAvailable, new(most-min(most, runs)), &most, r.Time)
	}
	return out
}

// PodUsage returns a pod's usage from its stats, which do not have PodUsage.Files. Of its volumes,
// the same count as for the ephemeral storage in the stats (summary.Local).
func PodUsage(pod *v1.Pod, s *statsapi.PodStats) eviction.PodUsage {
	u := eviction.PodUsage{EmptyDirs: map[string]uint64{}, Containers: map[string]eviction.ContainerUsage{}}
	if s.Memory != nil {
		u.Memory = s.Memory.WorkingSetBytes
	}
	if s.ProcessStats != nil {
		u.Processes = s.ProcessStats.ProcessCount
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		of := eviction.ContainerUsage{Root: disk(c.Rootfs), Logs: disk(c.Logs)}
		if c.Memory != nil {
			of.Memory = c.Memory.WorkingSetBytes
		}
		u.Containers[c.Name] = of
	}
	volumes := map[string]*v1.Volume{}
	for i := range pod.Spec.Volumes {
		volumes[pod.Spec.Volumes[i].Name] = &pod.Spec.Volumes[i]
	}
	for i := range s.VolumeStats {
		of, used := volumes[s.VolumeStats[i].Name], disk(&s.VolumeStats[i].FsStats)
		if of == nil {
			continue
		}
		if of.EmptyDir != nil && used.Bytes != nil {
			u.EmptyDirs[of.Name] = *used.Bytes
		}
		if summary.Local(of) {
			u.Volumes.Bytes, u.Volumes.Inodes = sum(u.Volumes.Bytes, used.Bytes), sum(u.Volumes.Inodes, used.Inodes)
		}
	}
	return u
}

func disk(f *statsapi.FsStats) (d eviction.Disk) {
	if f != nil {
		d.Bytes, d.Inodes = f.UsedBytes, f.InodesUsed
	}
	return d
}

func sum(a, b *uint64) *uint64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(*a + *b)
}

func (m *Measurer) podUsages(pods []*v1.Pod, stats map[types.UID]*statsapi.PodStats) map[types.UID]eviction.PodUsage {
	out := map[types.UID]eviction.PodUsage{}
	for _, pod := range pods {
		s := stats[pod.UID]
		if s == nil {
			continue
		}
		u := PodUsage(pod, s)
		bytes, inodes := m.cfg.Stats.Files(pod.UID)
		u.Files = eviction.Disk{Bytes: &bytes, Inodes: &inodes}
		out[pod.UID] = u
	}
	return out
}

// impossible removes readings without a capacity, such as inodes of a filesystem that does not
// count them. It returns the thresholds that are always crossed.
func impossible(p eviction.Policy, signals map[eviction.Signal]eviction.Reading) (out []eviction.Threshold) {
	for _, t := range p.Thresholds {
		if r, ok := signals[t.Signal]; ok && (r.Capacity == 0 || t.Impossible(r)) {
			out = append(out, t)
		}
	}
	maps.DeleteFunc(signals, func(_ eviction.Signal, r eviction.Reading) bool { return r.Capacity == 0 })
	return out
}
