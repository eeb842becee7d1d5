package fake_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// memory is what the process has in use.
type memory struct{ heap, stacks int64 }

func memoryInUse() memory {
	runtime.GC()
	runtime.GC() // what the first one has only marked as finished
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return memory{heap: int64(stats.HeapAlloc), stacks: int64(stats.StackInuse)}
}

// TestMemory holds 10,000 running containers to 100 MiB, goroutines included.
func TestMemory(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	rt := start(t, fake.Config{AnyImage: true})
	before := memoryInUse()
	fill(t, rt, n)
	after := memoryInUse()
	each := (after.heap + after.stacks - before.heap - before.stacks) / int64(n)
	require.Less(t, each, int64(100<<20/10_000))
	require.Greater(t, each, int64(2000), "less than a goroutine needs: this has measured nothing")
}

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
