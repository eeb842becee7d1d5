package pods

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/pleg"
)

// benchConfig is an agent with all that it usually has, in a directory of its own.
func benchConfig(b *testing.B, runtime cri.RuntimeService, service cri.ImageService) Config {
	dir := b.TempDir()
	require.NoError(b, os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("nameserver 10.0.0.1\n"), 0o600))
	manager, err := images.New(images.Config{Service: service})
	require.NoError(b, err)
	actuated, err := resize.NewFolder(resize.FolderConfig{Dir: filepath.Join(dir, "actuated")})
	require.NoError(b, err)
	return Config{
		Runtime: runtime, Images: manager, RuntimeName: "bench", Actuated: actuated,
		LogRoot: filepath.Join(dir, "pods"), LinkDir: filepath.Join(dir, "containers"),
		PodDir: func(uid types.UID) string { return filepath.Join(dir, "kubelet", string(uid)) },
		Node:   request.Node{Name: "node-1", IPs: []string{"192.0.2.1"}, MemoryCapacity: 8 << 30},
		DNS:    DNS{HostResolver: filepath.Join(dir, "resolv.conf")},
	}
}

// busyPod is a pod as users write them.
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

// BenchmarkStartOneContainer is how long a pod of one container takes to start
// outside of calls of the runtime, and BenchmarkStopOneContainer to stop: at most
// 8 ms and 10 ms. On the fake it is all that there is.
func BenchmarkStartOneContainer(b *testing.B) { onRuntimes(b, true) }
func BenchmarkStopOneContainer(b *testing.B)  { onRuntimes(b, false) }

func onRuntimes(b *testing.B, start bool) {
	b.Run("fake", func(b *testing.B) {
		rt, err := fake.New(fake.Config{AnyImage: true})
		require.NoError(b, err)
		defer rt.Close()
		outside(b, rt, rt, new(atomic.Int64), "busybox:1", start)
	})
	for _, variable := range []string{"PODWRIGHT_CRI_V1", "PODWRIGHT_CRI_V2"} {
		b.Run(variable, func(b *testing.B) {
			endpoint := os.Getenv(variable)
			if endpoint == "" {
				b.Skip("needs a container runtime: go run ./examples/testbed -- go test -bench OneContainer ./cri/pods")
			}
			var inside atomic.Int64
			cfg := cri.ClientConfig{Endpoint: endpoint, Observer: cri.Observer{CallDone: func(i cri.CallInfo) { inside.Add(int64(i.Duration)) }}}
			runtime, err := cri.DialRuntime(b.Context(), cfg)
			require.NoError(b, err)
			defer runtime.Close()
			service, err := cri.DialImages(b.Context(), cfg)
			require.NoError(b, err)
			defer service.Close()
			outside(b, runtime, service, &inside, os.Getenv("PODWRIGHT_IMAGE_TESTPROG"), start)
		})
	}
}

// outside measures the start or the stop of pods. Calls are made one at a time, and inside is
// the time that they take.
func outside(b *testing.B, runtime cri.RuntimeService, service cri.ImageService, inside *atomic.Int64, image string, start bool) {
	m, err := New(benchConfig(b, runtime, service))
	require.NoError(b, err)
	observer, err := observe.New(observe.Config{Runtime: runtime, RuntimeName: m.cfg.RuntimeName})
	require.NoError(b, err)
	collector, err := garbage.New(garbage.Config{Runtime: runtime, Pods: m})
	require.NoError(b, err)
	var total time.Duration
	measured := func(counts bool, f func() Result) {
		inside.Store(0)
		begin := time.Now()
		result := f()
		if counts {
			total += time.Since(begin) - time.Duration(inside.Load())
		}
		require.NoError(b, result.Err())
	}
	run := fmt.Sprintf("-%x", time.Now().UnixNano())
	for i := 0; b.Loop(); i++ {
		pod := busyPod(i, "a")
		pod.UID += types.UID(run)
		pod.Spec.Containers[0].Image = image
		if image != "busybox:1" {
			pod.Spec.Containers[0].Command = []string{"/testprog", "http", ":8080"}
		}
		measured(start, func() Result {
			return m.SyncPod(b.Context(), SyncRequest{Pod: pod, Status: &pleg.PodStatus{UID: pod.UID}})
		})
		status, err := observer.PodStatus(b.Context(), pod.UID)
		require.NoError(b, err)
		measured(!start, func() Result {
			return m.KillPod(b.Context(), KillRequest{Pod: pod, Status: status, GraceSeconds: ptr(int64(2))})
		})
		status, err = observer.PodStatus(b.Context(), pod.UID)
		require.NoError(b, err)
		require.NoError(b, collector.RemovePod(b.Context(), pod.UID, status))
	}
	b.ReportMetric(float64(total.Microseconds())/float64(b.N), "µs-outside/op")
}

// BenchmarkDecideAndBuild is what 100 pods of 3 containers cost apart from calls
// and files: the decision, and the requests for sandbox and containers. At most
// 150 µs per pod.
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
			out := actions.Compute(actions.Input{Pod: pod, Status: &pleg.PodStatus{UID: pod.UID}, Actuated: &actions.Actuated{}})
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

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
