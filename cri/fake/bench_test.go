package fake_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// kubeletLike is a container config of the size a kubelet sends.
func kubeletLike(pod, name string) *runtimeapi.ContainerConfig {
	config := containerConfig(pod, name, "/bin/app", "--flag=value")
	config.Labels["io.kubernetes.pod.name"] = pod
	config.Labels["io.kubernetes.pod.namespace"] = "default"
	config.Annotations = map[string]string{
		"io.kubernetes.container.hash": "8e45cbd0", "io.kubernetes.container.restartCount": "0",
		"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
		"io.kubernetes.container.terminationMessagePolicy": "File",
		"io.kubernetes.pod.terminationGracePeriod":         "30",
	}
	for i := range 8 {
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: fmt.Sprintf("KUBERNETES_PORT_%d", i), Value: []byte("tcp://10.0.0.1:443")})
	}
	config.Mounts = []*runtimeapi.Mount{
		{ContainerPath: "/etc/hosts", HostPath: "/var/lib/kubelet/pods/uid/etc-hosts"},
		{ContainerPath: "/dev/termination-log", HostPath: "/var/lib/kubelet/pods/uid/containers/c/1"},
	}
	config.Linux = &runtimeapi.LinuxContainerConfig{
		Resources: &runtimeapi.LinuxContainerResources{CpuShares: 102, CpuPeriod: 100000, MemoryLimitInBytes: 1 << 28},
	}
	return config
}

// fill creates n containers, ten to a sandbox.
func fill(tb testing.TB, rt *fake.Runtime, n int) {
	tb.Helper()
	var sandboxID string
	for i := range n {
		pod := fmt.Sprintf("pod-%d", i/10)
		if i%10 == 0 {
			var err error
			sandboxID, err = rt.RunPodSandbox(tb.Context(), podConfig(pod), "")
			require.NoError(tb, err)
		}
		id, err := rt.CreateContainer(tb.Context(), sandboxID, kubeletLike(pod, fmt.Sprintf("c-%d", i%10)), nil)
		require.NoError(tb, err)
		require.NoError(tb, rt.StartContainer(tb.Context(), id))
	}
}

// measureCPU reports the processor time of the process per operation, which a
// busy machine changes less than the time on the clock.
func measureCPU(b *testing.B) (done func()) {
	began := cpuTime(b)
	return func() { b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N), "cpu-ns/op") }
}

func cpuTime(b *testing.B) int64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

func BenchmarkContainerLife(b *testing.B) {
	for _, kind := range []struct {
		name string
		make func(pod, name string) *runtimeapi.ContainerConfig
	}{
		{"small", func(pod, name string) *runtimeapi.ContainerConfig { return containerConfig(pod, name, "app") }},
		{"kubelet", kubeletLike},
	} {
		b.Run(kind.name, func(b *testing.B) {
			rt := start(b, fake.Config{AnyImage: true})
			fill(b, rt, 15_000)
			ctx := b.Context()
			sandboxID, err := rt.RunPodSandbox(ctx, podConfig("p"), "")
			require.NoError(b, err)
			config := kind.make("p", "c")
			b.ReportAllocs()
			defer measureCPU(b)()
			for b.Loop() {
				id, err := rt.CreateContainer(ctx, sandboxID, config, nil)
				if err != nil {
					b.Fatal(err)
				}
				if err := rt.StartContainer(ctx, id); err != nil {
					b.Fatal(err)
				}
				if err := rt.StopContainer(ctx, id, 1); err != nil {
					b.Fatal(err)
				}
				if err := rt.RemoveContainer(ctx, id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkListContainers(b *testing.B) {
	rt := start(b, fake.Config{AnyImage: true})
	fill(b, rt, 3_000)
	for _, f := range []struct {
		name   string
		filter *runtimeapi.ContainerFilter
		want   int
	}{
		{"all", nil, 3000},
		{"running", &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}}, 3000},
		{"pod", &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": "uid-pod-7"}}, 10},
	} {
		b.Run(f.name, func(b *testing.B) {
			b.ReportAllocs()
			defer measureCPU(b)()
			for b.Loop() {
				list, err := rt.ListContainers(b.Context(), f.filter)
				if err != nil || len(list) != f.want {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}
