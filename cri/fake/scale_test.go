package fake_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// fleet is a node full of pods, each with the containers named.
type fleet struct {
	rt         *fake.Runtime
	containers []string
	sandboxes  []string // by the number of the pod
}

func newFleet(tb testing.TB, rt *fake.Runtime, pods int, containers ...string) *fleet {
	tb.Helper()
	f := &fleet{rt: rt, containers: containers, sandboxes: make([]string, pods)}
	for pod := range pods {
		require.NoError(tb, f.start(tb.Context(), pod))
	}
	return f
}

// start makes a pod. Its names are the same each time, so that one that is not
// given back is missed.
func (f *fleet) start(ctx context.Context, pod int) error {
	name := fmt.Sprint("pod-", pod)
	sandboxID, err := f.rt.RunPodSandbox(ctx, podConfig(name), "")
	if err != nil {
		return err
	}
	f.sandboxes[pod] = sandboxID
	for _, container := range f.containers {
		id, err := f.rt.CreateContainer(ctx, sandboxID, kubeletLike(name, container), podConfig(name))
		if err != nil {
			return err
		}
		if err := f.rt.StartContainer(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// stop stops a pod's containers side by side, as kubelets do, and removes it.
func (f *fleet) stop(ctx context.Context, pod int, grace time.Duration) error {
	list, err := f.rt.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: f.sandboxes[pod]})
	if err != nil || len(list) != len(f.containers) {
		return fmt.Errorf("%d containers of %d: %w", len(list), len(f.containers), err)
	}
	errs := make([]error, len(list))
	var stops sync.WaitGroup
	for i, c := range list {
		stops.Go(func() { errs[i] = f.rt.StopContainer(ctx, c.Id, grace) })
	}
	stops.Wait()
	for _, err := range append(errs, f.rt.StopPodSandbox(ctx, f.sandboxes[pod])) {
		if err != nil {
			return err
		}
	}
	return f.rt.RemovePodSandbox(ctx, f.sandboxes[pod])
}

func (f *fleet) replace(ctx context.Context, pod int, grace time.Duration) error {
	if err := f.stop(ctx, pod, grace); err != nil {
		return err
	}
	return f.start(ctx, pod)
}

// view is what a reader of events knows: the last event of all that exists, by
// the ID of the container or sandbox.
type view struct {
	mu   sync.Mutex
	last map[string]runtimeapi.ContainerEventType
	errs []string
}

func (v *view) see(e *runtimeapi.ContainerEventResponse) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before, known := v.last[e.ContainerId]
	switch what := e.ContainerEventType; {
	case known != (what != runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT), known && what != before+1:
		v.errs = append(v.errs, fmt.Sprintf("%v after %v of %s", what, before, e.ContainerId))
	case what == runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT:
		delete(v.last, e.ContainerId)
	default:
		v.last[e.ContainerId] = what
	}
}

// count lists everything and compares the numbers.
func (v *view) count(t *testing.T, rt *fake.Runtime) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container) {
	t.Helper()
	sandboxes, err := rt.ListPodSandbox(t.Context(), nil)
	require.NoError(t, err)
	containers, err := rt.ListContainers(t.Context(), nil)
	require.NoError(t, err)
	v.mu.Lock()
	defer v.mu.Unlock()
	require.Empty(t, v.errs)
	require.Equal(t, len(v.last), len(sandboxes)+len(containers), "events and lists tell of the same things")
	return sandboxes, containers
}

// check compares the view with the lists, and the lists with what must hold.
func (v *view) check(t *testing.T, rt *fake.Runtime) (sandboxes []*runtimeapi.PodSandbox, running int) {
	t.Helper()
	sandboxes, containers := v.count(t, rt)
	v.mu.Lock()
	defer v.mu.Unlock()
	pods, names := map[string]bool{}, map[[2]string]bool{}
	for _, b := range sandboxes {
		ready := b.State == runtimeapi.PodSandboxState_SANDBOX_READY
		if what := v.last[b.Id]; ready != (what == runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT) || pods[b.Metadata.Uid] {
			t.Fatalf("%v, last event %v, another sandbox of the pod: %v", b, what, pods[b.Metadata.Uid])
		}
		pods[b.Metadata.Uid] = true
	}
	for _, c := range containers {
		name := [2]string{c.Labels["io.kubernetes.pod.uid"], c.Metadata.Name}
		if what, known := v.last[c.Id]; !known || int(what) != int(c.State) || names[name] || !pods[name[0]] {
			t.Fatalf("%v, last event %v (%v), another of its name: %v", c, what, known, names[name])
		}
		names[name] = true
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			running++
		}
	}
	return sandboxes, running
}

// TestChurn replaces pods on a full node for minutes, 50 in each second, some of
// whose containers crash and some of which take all their grace. It lists
// everything each second and follows the events.
func TestChurn(t *testing.T) {
	pods, perSecond, span := 5000, 50, 2*time.Minute
	if testing.Short() {
		pods, perSecond, span = 100, 5, 30*time.Second
	}
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 9))
		var mu sync.Mutex
		rt := start(t, fake.Config{
			AnyImage: true,
			// There are not twice as many addresses as pods: a lost one is missed.
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/19")},
			Programs: func(_ context.Context, p *fake.Process) (fake.Program, error) {
				mu.Lock()
				defer mu.Unlock()
				switch life := time.Duration(random.Int64N(int64(4 * time.Minute))); p.Container.Name {
				case "crashing":
					return failing(life), nil
				case "stubborn":
					return stubborn, nil
				}
				return fake.SleepUntilStopped, nil
			},
		})
		seen := &view{last: map[string]runtimeapi.ContainerEventType{}}
		ctx, cancel := context.WithCancel(t.Context())
		var stream sync.WaitGroup
		stream.Go(func() { _ = rt.GetContainerEvents(ctx, seen.see) })
		synctest.Wait()
		idle := living()
		f := newFleet(t, rt, pods, "steady", "crashing", "stubborn")

		var replacing sync.WaitGroup
		next := 0
		for began := time.Now(); time.Since(began) < span; time.Sleep(time.Second) {
			for range perSecond {
				pod := next % pods
				next++
				replacing.Go(func() {
					if err := f.replace(t.Context(), pod, 3*time.Second); err != nil {
						t.Errorf("pod %d: %v", pod, err)
					}
				})
			}
			synctest.Wait()
			// Replacing takes time only while containers stop, so that at rest
			// nothing is missing.
			sandboxes, containers := seen.count(t, rt)
			require.Len(t, sandboxes, pods)
			require.Len(t, containers, 3*pods)
			// Replacements may be waiting for four seconds: each for itself, for
			// its stops and for a program that the end of grace is to kill.
			require.LessOrEqual(t, runtime.NumGoroutine(), idle+len(containers)+4*4*perSecond)
			if next%(10*perSecond) == 0 {
				sandboxes, _ := seen.check(t, rt)
				distinctAddresses(t, rt, sandboxes)
			}
		}
		replacing.Wait()
		synctest.Wait() // the events arrive
		require.Greater(t, next, pods, "addresses come round again")
		_, running := seen.check(t, rt)
		require.Greater(t, running, 2*pods-1)
		for pod := range pods {
			replacing.Go(func() {
				if err := f.stop(t.Context(), pod, time.Second); err != nil {
					t.Errorf("pod %d: %v", pod, err)
				}
			})
		}
		replacing.Wait()
		synctest.Wait()
		sandboxes, running := seen.check(t, rt)
		require.Empty(t, sandboxes)
		require.Zero(t, running)
		require.LessOrEqual(t, living(), idle)
		cancel()
		stream.Wait()
	})
}

// failing returns a program that fails after a while, or panics.
func failing(life time.Duration) fake.Program {
	if life%4 > 0 {
		return after(life, 1)
	}
	return func(ctx context.Context, p *fake.Process) int {
		after(life, 0)(ctx, p)
		panic("no")
	}
}

// distinctAddresses looks at the address of every ready sandbox.
func distinctAddresses(t *testing.T, rt *fake.Runtime, sandboxes []*runtimeapi.PodSandbox) {
	t.Helper()
	holders := make(map[string]string, len(sandboxes))
	for _, b := range sandboxes {
		response, err := rt.PodSandboxStatus(t.Context(), b.Id, false)
		require.NoError(t, err)
		ip := response.Status.Network.Ip
		if ready := b.State == runtimeapi.PodSandboxState_SANDBOX_READY; ready != (ip != "") || (ready && holders[ip] != "") {
			t.Fatalf("%v has %q, which is also of %q", b, ip, holders[ip])
		}
		holders[ip] = b.Id
	}
}

// BenchmarkChurn replaces pods of three containers on a node with 5,000 of them,
// with a reader of events and without.
func BenchmarkChurn(b *testing.B) {
	const pods = 5000
	for _, streams := range []int{0, 1} {
		b.Run(fmt.Sprint("streams=", streams), func(b *testing.B) {
			rt := start(b, fake.Config{AnyImage: true})
			ctx, cancel := context.WithCancel(b.Context())
			var reading sync.WaitGroup
			for range streams {
				reading.Go(func() { _ = rt.GetContainerEvents(ctx, func(*runtimeapi.ContainerEventResponse) {}) })
			}
			f := newFleet(b, rt, pods, "a", "b", "c")
			pod := 0
			b.ReportAllocs()
			done := measureCPU(b)
			for b.Loop() {
				if err := f.replace(ctx, pod%pods, time.Second); err != nil {
					b.Fatal(err)
				}
				pod++
			}
			done()
			cancel()
			reading.Wait()
		})
	}
}

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

// living is how many goroutines have not ended. NumGoroutine counts those, too, that are being
// cleared away.
func living() int {
	stacks := make([]byte, 1<<20)
	return 1 + bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("\n\ngoroutine "))
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
