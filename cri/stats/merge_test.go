package stats_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/stats"
)

func value(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }

func stalled(total uint64) *runtimeapi.PsiStats {
	return &runtimeapi.PsiStats{Some: &runtimeapi.PsiData{Total: total}}
}

func pressure(total time.Duration) *stats.Pressure {
	return &stats.Pressure{Some: stats.Stall{Total: total}}
}

// Runtime figures without a time were not measured, and certain zeros of containerd mean
// unavailable. The memory limit follows from the available memory. Figures from a cgroup stay.
func TestMergeContainer(t *testing.T) {
	n := func(n uint64) *uint64 { return &n }
	check := func(name string, known stats.Container, said *runtimeapi.ContainerStats, want stats.Container) {
		known.ID, want.ID = "c", "c"
		if said != nil {
			said.Attributes = &runtimeapi.ContainerAttributes{Id: "c"}
		}
		pods := []stats.Pod{{Containers: []stats.Container{known}}}
		stats.Merge(pods, []*runtimeapi.ContainerStats{said}, nil)
		require.Equal(t, want, pods[0].Containers[0], name)
	}
	check("all that it can say", stats.Container{}, &runtimeapi.ContainerStats{
		Cpu:           &runtimeapi.CpuUsage{Timestamp: 5e9, UsageCoreNanoSeconds: value(7), UsageNanoCores: value(0), Psi: stalled(9)},
		Memory:        &runtimeapi.MemoryUsage{Timestamp: 6e9, WorkingSetBytes: value(10), UsageBytes: value(20), AvailableBytes: value(0), Psi: stalled(8)},
		Swap:          &runtimeapi.SwapUsage{Timestamp: 6e9, SwapUsageBytes: value(3)},
		Io:            &runtimeapi.IoUsage{Timestamp: 6e9, Psi: stalled(4)},
		WritableLayer: &runtimeapi.FilesystemUsage{Timestamp: 4e9, UsedBytes: value(1)},
	}, stats.Container{
		Usage: stats.Usage{
			Time: time.Unix(5, 0), CPU: stats.CPU{Total: new(7 * time.Nanosecond), Pressure: pressure(9)},
			Memory: stats.Memory{Usage: n(20), WorkingSet: n(10), Pressure: pressure(8)}, Swap: stats.Swap{Usage: n(3)}, IO: pressure(4),
		},
		Writable: &stats.Filesystem{Time: time.Unix(4, 0), Used: n(1)},
	})
	check("without times", stats.Container{}, &runtimeapi.ContainerStats{
		Cpu: &runtimeapi.CpuUsage{UsageCoreNanoSeconds: value(7), UsageNanoCores: value(1)}, Memory: &runtimeapi.MemoryUsage{UsageBytes: value(20)},
		Swap: &runtimeapi.SwapUsage{SwapUsageBytes: value(3)}, Io: &runtimeapi.IoUsage{Timestamp: -1, Psi: stalled(4)}, WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: value(1)},
	}, stats.Container{})
	check("nothing", stats.Container{}, &runtimeapi.ContainerStats{}, stats.Container{})
	check("nobody", stats.Container{}, nil, stats.Container{})
	check("a rate, and more time than there is", stats.Container{}, &runtimeapi.ContainerStats{
		Cpu: &runtimeapi.CpuUsage{Timestamp: 5e9, UsageCoreNanoSeconds: value(1 << 63), UsageNanoCores: value(8)},
	}, stats.Container{NanoCores: n(8), Usage: stats.Usage{Time: time.Unix(5, 0)}})
	cgroup := stats.Container{NanoCores: n(1), Usage: stats.Usage{
		Time: time.Unix(1, 0), Memory: stats.Memory{Usage: n(1), WorkingSet: n(1)}, Swap: stats.Swap{Usage: n(2)}, IO: &stats.Pressure{},
	}}
	both := cgroup
	both.Usage.Memory.RSS, both.Usage.CPU.Total, both.Usage.Time = n(6), new(7*time.Nanosecond), time.Unix(3, 0) // the time belongs to the CPU time
	check("a cgroup's figures stay", cgroup, &runtimeapi.ContainerStats{
		Cpu:    &runtimeapi.CpuUsage{Timestamp: 3e9, UsageCoreNanoSeconds: value(7), UsageNanoCores: value(8)},
		Memory: &runtimeapi.MemoryUsage{Timestamp: 6e9, UsageBytes: value(5), RssBytes: value(6)},
		Swap:   &runtimeapi.SwapUsage{Timestamp: 6e9, SwapUsageBytes: value(3)}, Io: &runtimeapi.IoUsage{Timestamp: 6e9, Psi: stalled(4)},
	}, both)
	check("a time without a figure is none", cgroup, &runtimeapi.ContainerStats{Cpu: &runtimeapi.CpuUsage{Timestamp: 9e9}}, cgroup)
	full := &runtimeapi.PsiStats{Full: &runtimeapi.PsiData{Total: 4}}
	check("pressure that nobody has measured", cgroup, &runtimeapi.ContainerStats{
		Cpu: &runtimeapi.CpuUsage{Timestamp: 1, Psi: full}, Memory: &runtimeapi.MemoryUsage{Timestamp: 1, Psi: full},
	}, cgroup)

	for name, tc := range map[string]struct {
		known         stats.Memory
		working, left *runtimeapi.UInt64Value
		want          stats.Memory
	}{
		"a limit":               {stats.Memory{}, value(10), value(90), stats.Memory{WorkingSet: n(10), Limit: n(100)}},
		"no limit":              {stats.Memory{}, value(10), value(0), stats.Memory{WorkingSet: n(10)}},
		"use is not known":      {stats.Memory{}, nil, value(90), stats.Memory{}},
		"the cgroup's stays":    {stats.Memory{Limit: n(50)}, value(10), value(90), stats.Memory{Limit: n(50), WorkingSet: n(10)}},
		"with the cgroup's use": {stats.Memory{WorkingSet: n(20)}, value(10), value(90), stats.Memory{WorkingSet: n(20), Limit: n(110)}},
	} {
		with := func(m stats.Memory) stats.Container {
			return stats.Container{Usage: stats.Usage{Time: time.Unix(1, 0), Memory: m}}
		}
		check(name, with(tc.known), &runtimeapi.ContainerStats{
			Memory: &runtimeapi.MemoryUsage{Timestamp: 1, WorkingSetBytes: tc.working, AvailableBytes: tc.left},
		}, with(tc.want))
	}
}

func TestMergeSandbox(t *testing.T) {
	said := &runtimeapi.LinuxPodSandboxStats{
		Cpu:        &runtimeapi.CpuUsage{Timestamp: 3e9, UsageCoreNanoSeconds: value(7), UsageNanoCores: value(8)},
		Memory:     &runtimeapi.MemoryUsage{Timestamp: 6e9, WorkingSetBytes: value(10), AvailableBytes: value(1)},
		Process:    &runtimeapi.ProcessUsage{Timestamp: 1, ProcessCount: value(5)},
		Network:    &runtimeapi.NetworkUsage{Interfaces: []*runtimeapi.NetworkInterfaceUsage{{Name: "net1"}, nil}},
		Containers: []*runtimeapi.ContainerStats{{Attributes: &runtimeapi.ContainerAttributes{Id: "c"}, Swap: &runtimeapi.SwapUsage{Timestamp: 6e9, SwapUsageBytes: value(3)}}},
	}
	pods := []stats.Pod{{Sandbox: "s", Containers: []stats.Container{{ID: "c"}}}}
	merge := func() {
		stats.Merge(pods, nil, []*runtimeapi.PodSandboxStats{nil, {}, {Attributes: &runtimeapi.PodSandboxAttributes{Id: "s"}, Linux: said}})
	}
	before := time.Now()
	merge()
	want := stats.Usage{
		Time: time.Unix(3, 0), CPU: stats.CPU{Total: new(7 * time.Nanosecond)},
		Memory: stats.Memory{WorkingSet: new(uint64(10)), Limit: new(uint64(11))}, Processes: new(uint64(5)),
	}
	require.Equal(t, want, pods[0].Usage)
	require.EqualValues(t, 8, *pods[0].NanoCores)
	require.EqualValues(t, 3, *pods[0].Containers[0].Usage.Swap.Usage)
	require.Equal(t, []stats.Interface{{Name: "net1"}}, pods[0].Network.Interfaces)
	require.WithinRange(t, pods[0].Network.Time, before, time.Now(), "the runtime does not say when")
	// Each figure is taken once.
	said.Process.ProcessCount, said.Cpu.UsageNanoCores, said.Memory.WorkingSetBytes = value(6), value(9), value(20)
	pods[0].Network, said.Network.Timestamp = nil, 9e9
	merge()
	require.Equal(t, want, pods[0].Usage)
	require.EqualValues(t, 8, *pods[0].NanoCores)
	require.Equal(t, time.Unix(9, 0), pods[0].Network.Time)
	pods, said.Network.Interfaces = []stats.Pod{{Sandbox: "s"}}, nil
	merge()
	require.Nil(t, pods[0].Network)
}

// A pod without figures gets the sums of its containers, for figures that all containers have. Its
// time is the oldest of theirs.
func TestSumOfContainers(t *testing.T) {
	of := func(n uint64) stats.Usage {
		return stats.Usage{
			Time: time.Unix(1, 0), CPU: stats.CPU{Total: new(time.Duration(n))},
			Memory: stats.Memory{Usage: new(10 * n), WorkingSet: new(20 * n), RSS: new(30 * n), PageFaults: new(40 * n), MajorPageFaults: new(50 * n)},
			Swap:   stats.Swap{Usage: new(60 * n)}, Processes: new(70 * n),
		}
	}
	unknown, later := stats.Usage{Time: time.Unix(1, 0)}, stats.Usage{Time: time.Unix(2, 0)}
	total, used, working := stats.Usage{CPU: stats.CPU{Total: new(time.Second)}}, stats.Usage{Memory: stats.Memory{Usage: new(uint64(1))}}, stats.Usage{Memory: stats.Memory{WorkingSet: new(uint64(1))}}
	for _, test := range []struct {
		name        string
		known, want stats.Usage
		of          []stats.Usage
	}{
		{"no container", stats.Usage{}, stats.Usage{}, nil},
		{"one", stats.Usage{}, of(1), []stats.Usage{of(1)}},
		{"several", stats.Usage{}, of(7), []stats.Usage{of(1), of(2), of(4)}},
		{"the last is not known", stats.Usage{}, unknown, []stats.Usage{of(1), unknown}},
		{"the first is not known", stats.Usage{}, unknown, []stats.Usage{unknown, of(1)}},
		{"the last is older", stats.Usage{}, unknown, []stats.Usage{later, unknown}},
		{"the first is older", stats.Usage{}, unknown, []stats.Usage{unknown, later}},
		// A pod with some figures gets no sums for the missing ones.
		{"CPU time is known", total, total, []stats.Usage{of(1)}},
		{"memory is known", used, used, []stats.Usage{of(1)}},
		{"the working set is known", working, working, []stats.Usage{of(1)}},
	} {
		pods := []stats.Pod{{Usage: test.known}}
		for _, u := range test.of {
			pods[0].Containers = append(pods[0].Containers, stats.Container{Usage: u})
		}
		stats.Merge(pods, nil, nil)
		require.Equal(t, test.want, pods[0].Usage, test.name)
	}
}
