package fake_test

import (
	"context"
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
		id, err := rt.CreateContainer(tb.Context(), sandboxID, kubeletLike(pod, fmt.Sprintf("c-%d", i%10)), podConfig(pod))
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

// BenchmarkFullNode lists what a node with 15,000 containers has.
func BenchmarkFullNode(b *testing.B) {
	rt := start(b, fake.Config{AnyImage: true})
	newFleet(b, rt, 5_000, "a", "b", "c")
	for _, list := range []struct {
		name string
		want int
		call func(context.Context) (int, error)
	}{
		{"ListPodSandbox", 5_000, func(ctx context.Context) (int, error) { return length(rt.ListPodSandbox(ctx, nil)) }},
		{"ListContainers", 15_000, func(ctx context.Context) (int, error) { return length(rt.ListContainers(ctx, nil)) }},
		{"ListContainers of a pod", 3, func(ctx context.Context) (int, error) {
			return length(rt.ListContainers(ctx, &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": "uid-pod-7"}}))
		}},
		{"ListContainerStats", 15_000, func(ctx context.Context) (int, error) { return length(rt.ListContainerStats(ctx, nil)) }},
		{"ListPodSandboxStats", 5_000, func(ctx context.Context) (int, error) { return length(rt.ListPodSandboxStats(ctx, nil)) }},
	} {
		b.Run(list.name, func(b *testing.B) {
			b.ReportAllocs()
			defer measureCPU(b)()
			for b.Loop() {
				if n, err := list.call(b.Context()); err != nil || n != list.want {
					b.Fatal(n, err)
				}
			}
		})
	}
}
