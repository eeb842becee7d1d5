package pods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

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

// stopwatch is a runtime that adds up the time that calls take. Calls are made one
// at a time here.
type stopwatch struct {
	cri.RuntimeService
	inside time.Duration
}

func (w *stopwatch) time() func() {
	begin := time.Now()
	return func() { w.inside += time.Since(begin) }
}

func (w *stopwatch) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	defer w.time()()
	return w.RuntimeService.RunPodSandbox(ctx, config, handler)
}

func (w *stopwatch) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	defer w.time()()
	return w.RuntimeService.PodSandboxStatus(ctx, id, verbose)
}

func (w *stopwatch) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	defer w.time()()
	return w.RuntimeService.CreateContainer(ctx, sandbox, config, sandboxConfig)
}

func (w *stopwatch) StartContainer(ctx context.Context, id string) error {
	defer w.time()()
	return w.RuntimeService.StartContainer(ctx, id)
}

func (w *stopwatch) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	defer w.time()()
	return w.RuntimeService.StopContainer(ctx, id, grace)
}

func (w *stopwatch) StopPodSandbox(ctx context.Context, id string) error {
	defer w.time()()
	return w.RuntimeService.StopPodSandbox(ctx, id)
}

// timedImages adds up the time of image calls, too.
type timedImages struct {
	cri.ImageService
	watch *stopwatch
}

func (i timedImages) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	defer i.watch.time()()
	return i.ImageService.ImageStatus(ctx, image, verbose)
}

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
		outside(b, rt, rt, "busybox:1", start)
	})
	for _, variable := range []string{"PODWRIGHT_CRI_V1", "PODWRIGHT_CRI_V2"} {
		b.Run(variable, func(b *testing.B) {
			endpoint := os.Getenv(variable)
			if endpoint == "" {
				b.Skip("needs a container runtime: go run ./examples/testbed -- go test -bench OneContainer ./cri/pods")
			}
			runtime, err := cri.DialRuntime(b.Context(), cri.ClientConfig{Endpoint: endpoint})
			require.NoError(b, err)
			defer runtime.Close()
			service, err := cri.DialImages(b.Context(), cri.ClientConfig{Endpoint: endpoint})
			require.NoError(b, err)
			defer service.Close()
			outside(b, runtime, service, os.Getenv("PODWRIGHT_IMAGE_TESTPROG"), start)
		})
	}
}

func outside(b *testing.B, runtime cri.RuntimeService, service cri.ImageService, image string, start bool) {
	watch := &stopwatch{RuntimeService: runtime}
	m, err := New(benchConfig(b, watch, timedImages{service, watch}))
	require.NoError(b, err)
	observer, err := observe.New(observe.Config{Runtime: watch, RuntimeName: m.cfg.RuntimeName})
	require.NoError(b, err)
	collector, err := garbage.New(garbage.Config{Runtime: watch, Pods: m})
	require.NoError(b, err)
	var total time.Duration
	run := fmt.Sprintf("-%x", time.Now().UnixNano())
	for i := 0; b.Loop(); i++ {
		pod := busyPod(i, "a")
		pod.UID += types.UID(run)
		pod.Spec.Containers[0].Image = image
		if image != "busybox:1" {
			pod.Spec.Containers[0].Command = []string{"/testprog", "http", ":8080"}
		}
		measured := func(f func() Result) {
			watch.inside = 0
			begin := time.Now()
			result := f()
			total += time.Since(begin) - watch.inside
			require.NoError(b, result.Err())
		}
		ignored := func(f func() Result) { result := f(); require.NoError(b, result.Err()) }
		first, second := measured, ignored
		if !start {
			first, second = second, first
		}
		first(func() Result {
			return m.SyncPod(b.Context(), SyncRequest{Pod: pod, Status: &pleg.PodStatus{UID: pod.UID}})
		})
		status, err := observer.PodStatus(b.Context(), pod.UID)
		require.NoError(b, err)
		second(func() Result {
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
