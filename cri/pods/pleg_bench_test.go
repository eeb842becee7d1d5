package pods

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/plegtest"
)

// The figures of a PLEG on the CRI, on the fake in process with 5 ms per call. CPU is
// that of the process, from which the fake's own share is subtracted, measured by the
// same calls without a PLEG:
//
//	go test ./cri/pods -run xxx -bench PLEG -benchtime 10x

const (
	callLatency = 5 * time.Millisecond
	hanging     = 7
)

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// node is a runtime with so many pods of one sandbox and so many containers.
type node struct {
	rt   *fake.Runtime
	seen *observe.Observer
	uids []types.UID
	slow atomic.Bool // calls take their time
	hang atomic.Bool // the inspection of the eighth pod hangs
}

func newNode(tb testing.TB, pods, containers int, events bool) *node {
	n := &node{}
	cfg := fake.Config{AnyImage: true}
	if !events {
		cfg.Unimplemented = []string{"GetContainerEvents"}
	}
	cfg.Intercept = n.intercept
	rt, err := fake.New(cfg)
	require.NoError(tb, err)
	n.rt = rt
	tb.Cleanup(func() { require.NoError(tb, rt.Close()) })
	n.seen, err = observe.New(observe.Config{Runtime: rt, RuntimeName: "fake"})
	require.NoError(tb, err)
	for i := range pods {
		n.addPod(tb, types.UID(fmt.Sprintf("7d2c1b1e-0000-4000-8000-%012d", i)), containers)
	}
	n.slow.Store(true)
	return n
}

func (n *node) intercept(ctx context.Context, call string, request any) error {
	if !n.slow.Load() || call == "GetContainerEvents" {
		return nil
	}
	if r, ok := request.(*runtimeapi.ListContainersRequest); ok && n.hang.Load() && r.GetFilter().GetLabelSelector()[labels.PodUID] == string(n.uids[hanging]) {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(callLatency)
	return nil
}

func (n *node) addPod(tb testing.TB, uid types.UID, containers int) {
	ctx := context.Background()
	n.uids = append(n.uids, uid)
	named := map[string]string{labels.PodName: "pod-" + string(uid), labels.PodNamespace: "default", labels.PodUID: string(uid)}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod-" + string(uid), Namespace: "default", Uid: string(uid)}, Labels: named,
	}
	sandbox, err := n.rt.RunPodSandbox(ctx, config, "")
	require.NoError(tb, err)
	for i := range containers {
		named := map[string]string{labels.ContainerName: fmt.Sprint("container-", i)}
		for k, v := range config.Labels {
			named[k] = v
		}
		id, err := n.rt.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: fmt.Sprint("container-", i)}, Labels: named,
			Image:       &runtimeapi.ImageSpec{Image: "registry.example.org/team/application:v1.2.3"},
			Annotations: map[string]string{labels.AnnotationHash: "9f8e7d6c", labels.AnnotationRestartCount: "0"},
		}, config)
		require.NoError(tb, err)
		require.NoError(tb, n.rt.StartContainer(ctx, id))
	}
}

// observing starts a PLEG and returns it, with a function that ends it, once it knows
// all pods and its stream has settled.
func (n *node) observing(tb testing.TB, cfg pleg.Config) (*pleg.PLEG, func()) {
	cfg.Runtime = n.seen
	p, err := pleg.New(cfg)
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	for _, uid := range n.uids {
		for {
			if s, err := p.Get(uid); err == nil && !s.Empty() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	time.Sleep(2 * time.Second)
	return p, func() { cancel(); require.NoError(tb, <-done) }
}

// ownShare is the CPU time that one list takes the fake itself.
func (n *node) ownShare(tb testing.TB) time.Duration {
	n.slow.Store(false)
	defer n.slow.Store(true)
	const lists = 20
	before := cpuTime()
	for range lists {
		_, err := n.rt.ListPodSandbox(context.Background(), nil)
		require.NoError(tb, err)
		_, err = n.rt.ListContainers(context.Background(), nil)
		require.NoError(tb, err)
	}
	return (cpuTime() - before) / lists
}

// Each iteration is a second of rest, of 1,000 pods with 3,000 containers.
func BenchmarkPLEGIdle(b *testing.B) {
	for name, events := range map[string]bool{"events": true, "generic": false} {
		b.Run(name, func(b *testing.B) {
			n := newNode(b, 1000, 3, events)
			own := n.ownShare(b)
			var lists atomic.Int64
			_, stop := n.observing(b, pleg.Config{Metrics: pleg.Metrics{Listed: func(time.Duration, int, error) { lists.Add(1) }}})
			defer stop()
			runtime.GC()
			before, began, seconds := lists.Load(), cpuTime(), 0
			for b.Loop() {
				time.Sleep(time.Second)
				seconds++
			}
			used, listed := cpuTime()-began, time.Duration(lists.Load()-before)
			b.ReportMetric(ms(used-listed*own)/float64(seconds), "CPU-ms/s")
			b.ReportMetric(ms(listed*own)/float64(seconds), "fake-CPU-ms/s")
			b.ReportMetric(float64(listed)/float64(seconds), "lists/s")
		})
	}
}

// Each iteration is a list that shows no change. Its cost is linear.
func BenchmarkPLEGRelist(b *testing.B) {
	for _, pods := range []int{250, 1000, 4000} {
		b.Run(fmt.Sprint(pods*3), func(b *testing.B) {
			n := newNode(b, pods, 3, false)
			own := n.ownShare(b)
			n.slow.Store(false)
			listed := make(chan struct{})
			_, stop := n.observing(b, pleg.Config{RelistPeriod: time.Millisecond, Metrics: pleg.Metrics{Listed: func(time.Duration, int, error) {
				select {
				case listed <- struct{}{}:
				default:
				}
			}}})
			defer stop()
			<-listed
			began, lists := cpuTime(), 0
			for b.Loop() {
				<-listed
				lists++
			}
			each := (cpuTime()-began)/time.Duration(lists) - own
			b.ReportMetric(ms(each), "CPU-ms/list")
			b.ReportMetric(float64(each)/float64(pods*3), "CPU-ns/container")
		})
	}
}

// Each iteration: one container in each of 300 of 1,000 pods is killed at once, and
// the inspection of one of these pods hangs. The metric is when the other 299 are in
// the cache.
func BenchmarkPLEGBurst(b *testing.B) {
	var took []time.Duration
	for b.Loop() {
		n := newNode(b, 1000, 3, true)
		victims := n.victims(b, 300)
		seen, count := make(chan time.Time, 1), 0
		_, stop := n.observing(b, pleg.Config{InspectTimeout: 10 * time.Second, OnEvent: func(e pleg.Event) {
			if e.Type != pleg.Died {
				return
			}
			if count++; count == len(victims)-1 {
				seen <- time.Now()
			}
		}})
		n.hang.Store(true)
		began := time.Now()
		for _, id := range victims {
			require.NoError(b, n.rt.Signal(id, syscall.SIGKILL))
		}
		took = append(took, (<-seen).Sub(began))
		stop()
	}
	spread := plegtest.SpreadOf(took)
	b.ReportMetric(ms(spread.Median), "ms-median")
	b.ReportMetric(ms(spread.Max), "ms-max")
}

// victims returns the ID of a container of each of the first pods.
func (n *node) victims(tb testing.TB, count int) (ids []string) {
	n.slow.Store(false)
	defer n.slow.Store(true)
	for _, uid := range n.uids[:count] {
		s, err := n.seen.PodStatus(context.Background(), uid)
		require.NoError(tb, err)
		ids = append(ids, s.Containers[0].ID.ID)
	}
	return ids
}

// Each iteration: a container is killed, and then a worker asks for what is newer
// than that; and another one is killed, and nobody asks.
func BenchmarkPLEGFresh(b *testing.B) {
	n := newNode(b, 1000, 3, true)
	victims := n.victims(b, 1000)
	died := make(chan time.Time, 1000)
	p, stop := n.observing(b, pleg.Config{OnEvent: func(e pleg.Event) {
		if e.Type == pleg.Died {
			died <- time.Now()
		}
	}})
	defer stop()
	var asked, told []time.Duration
	i := 0
	for b.Loop() {
		for range 2 {
			began := time.Now()
			require.NoError(b, n.rt.Signal(victims[i%1000], syscall.SIGKILL))
			if len(asked) == len(told) {
				_, err := p.Observe(context.Background(), n.uids[i%1000], time.Now())
				require.NoError(b, err)
				asked = append(asked, time.Since(began))
				<-died
			} else {
				told = append(told, (<-died).Sub(began))
			}
			i++
		}
	}
	b.ReportMetric(ms(plegtest.SpreadOf(asked).Median), "ms-Observe")
	b.ReportMetric(ms(plegtest.SpreadOf(told).Median), "ms-event")
	b.ReportMetric(ms(plegtest.SpreadOf(told).P99), "ms-event-p99")
}

// What 5,000 pods of two containers take in the PLEG, beside the fake.
func BenchmarkPLEGMemory(b *testing.B) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const pods = 5000
	n := newNode(b, pods, 2, true)
	n.slow.Store(false)
	var err error
	n.seen, err = observe.New(observe.Config{Runtime: wire{n.rt}, RuntimeName: "fake"})
	require.NoError(b, err)
	for b.Loop() {
		before := heap()
		p, stop := n.observing(b, pleg.Config{})
		after := heap()
		require.Len(b, p.Pods(), pods)
		b.ReportMetric((float64(after)-float64(before))/pods/1024, "KiB/pod")
		stop()
	}
}

// wire gives answers that share no memory with the runtime, as over a socket.
type wire struct{ cri.RuntimeService }

func rewired[M proto.Message](m M, err error) (M, error) {
	if err != nil {
		return m, err
	}
	data, err := proto.Marshal(m)
	if err != nil {
		return m, err
	}
	out := m.ProtoReflect().New().Interface().(M)
	return out, proto.Unmarshal(data, out)
}

func (w wire) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	items, err := w.RuntimeService.ListPodSandbox(ctx, filter)
	r, err := rewired(&runtimeapi.ListPodSandboxResponse{Items: items}, err)
	return r.Items, err
}

func (w wire) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	containers, err := w.RuntimeService.ListContainers(ctx, filter)
	r, err := rewired(&runtimeapi.ListContainersResponse{Containers: containers}, err)
	return r.Containers, err
}

func (w wire) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return rewired(w.RuntimeService.PodSandboxStatus(ctx, id, verbose))
}

func (w wire) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return rewired(w.RuntimeService.ContainerStatus(ctx, id, verbose))
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }
