package stats_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/stats"
)

// A pod of which nothing is known uses what its containers do, of each figure that all have.
func TestSumOfContainers(t *testing.T) {
	of := func(n uint64) stats.Usage {
		return stats.Usage{
			Time: time.Unix(1, 0), CPU: stats.CPU{Total: new(time.Duration(n))},
			Memory: stats.Memory{Usage: new(10 * n), WorkingSet: new(20 * n), RSS: new(30 * n), PageFaults: new(40 * n), MajorPageFaults: new(50 * n)},
			Swap:   stats.Swap{Usage: new(60 * n)}, Processes: new(70 * n),
		}
	}
	unknown := stats.Usage{Time: time.Unix(1, 0)}
	for _, test := range []struct {
		name string
		of   []stats.Usage
		want stats.Usage
	}{
		{"no container", nil, stats.Usage{}},
		{"one", []stats.Usage{of(1)}, of(1)},
		{"several", []stats.Usage{of(1), of(2), of(4)}, of(7)},
		{"the last is not known", []stats.Usage{of(1), unknown}, unknown},
		{"the first is not known", []stats.Usage{unknown, of(1)}, unknown},
	} {
		pods := []stats.Pod{{}}
		for _, u := range test.of {
			pods[0].Containers = append(pods[0].Containers, stats.Container{Usage: u})
		}
		stats.Merge(pods, nil, nil)
		require.Equal(t, test.want, pods[0].Usage, test.name)
	}
}

// A runtime does not name the limit of memory, but what is left of it.
func TestLimitByWhatIsLeft(t *testing.T) {
	for _, test := range []struct {
		name    string
		known   stats.Memory
		working *runtimeapi.UInt64Value
		left    uint64
		want    *uint64
	}{
		{"a limit", stats.Memory{}, &runtimeapi.UInt64Value{Value: 10}, 90, new(uint64(100))},
		{"none", stats.Memory{}, &runtimeapi.UInt64Value{Value: 10}, 0, nil},
		{"what is used is not known", stats.Memory{}, nil, 90, nil},
		{"the cgroup's stays", stats.Memory{Limit: new(uint64(50))}, &runtimeapi.UInt64Value{Value: 10}, 90, new(uint64(50))},
		{"with the cgroup's use", stats.Memory{WorkingSet: new(uint64(20))}, &runtimeapi.UInt64Value{Value: 10}, 90, new(uint64(110))},
	} {
		pods := []stats.Pod{{Containers: []stats.Container{{ID: "c", Usage: stats.Usage{Memory: test.known}}}}}
		stats.Merge(pods, []*runtimeapi.ContainerStats{{
			Attributes: &runtimeapi.ContainerAttributes{Id: "c"},
			Memory:     &runtimeapi.MemoryUsage{Timestamp: 1, WorkingSetBytes: test.working, AvailableBytes: &runtimeapi.UInt64Value{Value: test.left}},
		}}, nil)
		require.Equal(t, test.want, pods[0].Containers[0].Usage.Memory.Limit, test.name)
	}
}

// Of pressure that nobody has measured, nothing is known.
func TestPressureWithoutSome(t *testing.T) {
	pods := []stats.Pod{{Containers: []stats.Container{{ID: "c"}}}}
	psi := &runtimeapi.PsiStats{Full: &runtimeapi.PsiData{Total: 4}}
	stats.Merge(pods, []*runtimeapi.ContainerStats{{
		Attributes: &runtimeapi.ContainerAttributes{Id: "c"},
		Cpu:        &runtimeapi.CpuUsage{Timestamp: 1, Psi: psi}, Memory: &runtimeapi.MemoryUsage{Timestamp: 1, Psi: psi}, Io: &runtimeapi.IoUsage{Timestamp: 1, Psi: psi},
	}}, nil)
	u := pods[0].Containers[0].Usage
	require.Nil(t, u.CPU.Pressure)
	require.Nil(t, u.Memory.Pressure)
	require.Nil(t, u.IO)
}
