package pods

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/pleg/observed"
)

// benchConfig is a complete configuration in a temporary directory.
func benchConfig(b *testing.B, runtime cri.RuntimeService, service cri.ImageService) Config {
	dir := b.TempDir()
	require.NoError(b, os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("nameserver 10.0.0.1\n"), 0o600))
	manager, err := images.New(images.Config{Service: service})
	require.NoError(b, err)
	return Config{
		Runtime: runtime, Images: manager, RuntimeName: "bench", Actuated: resize.NewMemory(),
		LogRoot: filepath.Join(dir, "pods"), LinkDir: filepath.Join(dir, "containers"),
		PodDir: func(uid types.UID) string { return filepath.Join(dir, "kubelet", string(uid)) },
		Node:   request.Node{Name: "node-1", IPs: []string{"192.0.2.1"}, MemoryCapacity: 8 << 30},
		DNS:    DNS{HostResolver: filepath.Join(dir, "resolv.conf")},
	}
}

// busyPod is a typical pod.
func busyPod(i int, containers ...string) *v1.Pod {
	pod := testPod(containers...)
	pod.Name, pod.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("0d1e-%d", i))
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.Resources = v1.ResourceRequirements{Requests: quantities("cpu", "100m", "memory", "64Mi"), Limits: quantities("memory", "128Mi")}
		for j := range 10 {
			c.Env = append(c.Env, v1.EnvVar{Name: fmt.Sprintf("SETTING_%d", j), Value: "value-$(POD_NAME)"})
		}
		c.Ports = []v1.ContainerPort{{Name: "http", ContainerPort: int32(8080 + i), Protocol: v1.ProtocolTCP}}
	}
	return pod
}

// BenchmarkDecideAndBuild measures the decision and the requests for 100 pods of 3 containers,
// without runtime calls and files. Target: at most 150 µs per pod.
func BenchmarkDecideAndBuild(b *testing.B) {
	rt, err := fake.New(fake.Config{AnyImage: true})
	require.NoError(b, err)
	defer rt.Close()
	m, err := New(benchConfig(b, rt, rt))
	require.NoError(b, err)
	const n = 100
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = busyPod(i, strings.Fields("a b c")...)
	}
	b.ReportAllocs()
	begin := cpuTime()
	for b.Loop() {
		for _, pod := range pods {
			out, _ := actions.Compute(actions.Input{Pod: pod, Status: &observed.Pod{UID: pod.UID}, Actuated: &actions.Actuated{}})
			if _, err := m.builder.Sandbox(pod, out.Attempt); err != nil {
				b.Fatal(err)
			}
			for _, c := range out.StartRegular {
				_, err := m.builder.Container(b.Context(), request.Instance{
					Pod: pod, Container: &pod.Spec.Containers[c], Image: request.Image{Ref: "sha256:1"}, PodIPs: []string{"10.0.0.7"},
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.ReportMetric(float64((cpuTime()-begin).Microseconds())/float64(b.N*n), "µs-CPU/pod")
}

// cpuTime returns the CPU time of the process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
