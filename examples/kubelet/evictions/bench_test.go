package evictions

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/stats"
	kernel "github.com/podwright/podwright/examples/kubelet/cgroups"
	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/syncloop/eviction"
	"github.com/podwright/podwright/volume/usage"
)

// BenchmarkPass is a pass of a node with 100 pods that is short of nothing, by the machine's
// own /proc and cgroups, and with the answers of a runtime in memory: cpu-ms is the
// processors' time. There is one each ten seconds, so that 10 ms are 1 ms per second, which
// all of this is not to pass. Pods have no limits of local storage, or of their volumes, or
// of what they write as well.
func BenchmarkPass(b *testing.B) {
	for name, edits := range map[string][]func(*v1.PodSpec){
		"plain": nil, "volumes": {withEmptyDir}, "layers": {withEmptyDir, withLimit},
	} {
		b.Run(name, func(b *testing.B) {
			measurer, policy, pods := idleNode(b, func(s *v1.PodSpec) {
				for _, edit := range edits {
					edit(s)
				}
			})
			var state eviction.State
			begun := spent(b)
			for b.Loop() {
				u, err := measurer.Measure(b.Context())
				require.NoError(b, err)
				require.NotEmpty(b, u.Signals)
				d := policy.Decide(state, u, pods, time.Now())
				require.Nil(b, d.Met)
				state = d.State
			}
			b.ReportMetric(float64(spent(b)-begun)/float64(b.N)/float64(time.Millisecond), "cpu-ms/op")
		})
	}
}

// idleNode is one with 100 pods of two containers, whose volumes were measured.
func idleNode(b *testing.B, edit func(*v1.PodSpec)) (*Measurer, eviction.Policy, []*v1.Pod) {
	policy, err := Policy(&kubeletv1beta1.KubeletConfiguration{EvictionHard: map[string]string{
		"memory.available": "1", "nodefs.available": "1", "nodefs.inodesFree": "1", "imagefs.available": "1", "imagefs.inodesFree": "1", "pid.available": "1",
	}})
	require.NoError(b, err)
	root := b.TempDir()
	volume := func(pod *v1.Pod) string { return filepath.Join(root, string(pod.UID)) }
	meter := usage.New(usage.Config{})
	var pods []*v1.Pod
	var layers []*runtimeapi.ContainerStats
	for i := range 100 {
		pod := podWith(types.UID(fmt.Sprint("pod-", i)), func(s *v1.PodSpec) {
			s.Containers = append(s.Containers, v1.Container{Name: "d"})
			edit(s)
		})
		require.NoError(b, os.Mkdir(volume(pod), 0o700))
		_, err := meter.Measure(b.Context(), volume(pod), 0)
		require.NoError(b, err)
		for _, c := range pod.Spec.Containers {
			layers = append(layers, &runtimeapi.ContainerStats{
				Attributes:    &runtimeapi.ContainerAttributes{Metadata: &runtimeapi.ContainerMetadata{}, Labels: map[string]string{labels.PodUID: string(pod.UID), labels.ContainerName: c.Name}},
				WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: &runtimeapi.UInt64Value{Value: 0}},
			})
		}
		pods = append(pods, pod)
	}
	runtime, err := fake.New(fake.Config{ImageFilesystem: root})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, runtime.Close()) })
	proc := stats.Host("/proc")
	collector, err := stats.NewCollector(stats.CollectorConfig{Runtime: runtime, Proc: proc})
	require.NoError(b, err)
	cgroups, err := stats.New(stats.Config{FS: stats.Host("/sys/fs/cgroup"), Version: stats.Version(kernel.HostVersion())})
	require.NoError(b, err)
	all := func() []*v1.Pod { return pods }
	provider, err := summary.New(summary.Config{
		NodeName: "n", Collector: collector, Proc: proc, Root: root, Images: runtime.ImageFsInfo, Meter: meter, Pods: all,
		Cgroups: cgroups, Systems: map[string]string{statsapi.SystemContainerPods: "/"},
		Volume: func(_ context.Context, pod *v1.Pod, _ string) (string, bool) { return volume(pod), true },
		LogDir: func(_, _ string, uid types.UID) string { return filepath.Join(root, string(uid), "logs") },
	})
	require.NoError(b, err)
	m, err := NewMeasurer(Config{
		Policy: policy, Stats: provider, Images: runtime.ImageFsInfo, Device: Device, Root: root, Pods: all,
		Containers: func(context.Context) ([]*runtimeapi.ContainerStats, error) { return layers, nil },
	})
	require.NoError(b, err)
	return m, policy, pods
}

// spent is the processors' time of this process so far.
func spent(b *testing.B) time.Duration {
	var r unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
