package summary

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/stats"
	"github.com/podwright/podwright/volume/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a node with pods on a fake runtime, their cgroups, volumes and logs.
type scene struct {
	*fake.Runtime
	root    string
	cgroups fstest.MapFS
	cfg     Config

	mu     sync.Mutex
	refuse map[string]error
	pods   []*v1.Pod
}

// newScene creates a node with n pods and cgroup v2.
func newScene(t testing.TB, n int, change func(*scene)) (*scene, *Provider) {
	s := &scene{root: t.TempDir(), cgroups: fstest.MapFS{}, refuse: map[string]error{}}
	var err error
	s.Runtime, err = fake.New(fake.Config{AnyImage: true, ImageFilesystem: s.root, Intercept: func(_ context.Context, call string, _ any) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.refuse[call]
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	places := map[string]string{}
	for i := range n {
		s.pod(t, i, places)
	}
	s.cgroup("/", 900, 9_000_000)
	s.cgroup("/kubepods", 800, 8_000_000)
	reader, err := stats.New(stats.Config{FS: s.cgroups, Version: stats.V2})
	require.NoError(t, err)
	proc := proc()
	collector, err := stats.NewCollector(stats.CollectorConfig{Owner: cri.Owner{Unlabelled: true}, Runtime: s.Runtime, Reader: reader, PodCgroups: func() map[string]string { return places }, Proc: proc})
	require.NoError(t, err)
	meter := usage.New(usage.Config{})
	s.cfg = Config{
		NodeName: "n", Collector: collector, Cgroups: reader, Proc: proc, Root: s.root, Images: s.ImageFsInfo, Meter: meter,
		Systems: map[string]string{statsapi.SystemContainerPods: "/kubepods", statsapi.SystemContainerMisc: ""}, Above: []string{"/kubepods", "/kubepods/none"},
		Machine: Machine{BootID: "b", MachineID: "m", SystemUUID: "u", Kernel: "6", OS: "D"},
		Pods:    func() []*v1.Pod { return s.pods },
		Volume: func(_ context.Context, pod *v1.Pod, name string) (string, bool) {
			return filepath.Join(s.root, "volumes", string(pod.UID), name), name != "absent"
		},
		LogDir: func(_, _ string, uid types.UID) string { return filepath.Join(s.root, "logs", string(uid)) },
		PodDir: func(uid types.UID) string { return filepath.Join(s.root, "pods", string(uid)) },
	}
	if change != nil {
		change(s)
	}
	p, err := New(s.cfg)
	require.NoError(t, err)
	return s, p
}

func (s *scene) cgroup(name string, memory, micros int) {
	for file, text := range map[string]string{
		"memory.current": fmt.Sprint(memory), "memory.stat": "anon 5\nfile 3\ninactive_file 100\nactive_file 1\npgfault 7\npgmajfault 1\nkernel 2\nfile_mapped 1",
		"memory.max": "1000", "memory.swap.current": "0", "memory.swap.max": "50", "memory.events": "low 0\nmax 1\noom_kill 0", "memory.min": "0", "memory.peak": "901",
		"cpu.stat": fmt.Sprintf("usage_usec %d\nuser_usec 1\nsystem_usec 1\nnr_periods 4\nnr_throttled 2\nthrottled_usec 5\nnr_bursts 0\nburst_usec 0", micros),
		"cpu.max":  "50000 100000", "cpu.weight": "100", "pids.current": "3", "pids.max": "max", "cgroup.procs": "7",
		"io.stat":      "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0",
		"cpu.pressure": "some avg10=0.50 avg60=0.00 avg300=0.00 total=10\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5", "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1",
		"io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2",
	} {
		s.cgroups[strings.TrimLeft(name+"/"+file, "/")] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
}

func (s *scene) pod(t testing.TB, i int, places map[string]string) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%03d", i), UID: types.UID(fmt.Sprintf("uid-%d", i))}}
	pod.Spec.Containers = []v1.Container{{Name: "c", Image: "named:1"}}
	pod.Spec.Volumes = []v1.Volume{
		{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
		{Name: "claimed", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "own", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}},
		{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}},
		{Name: "absent"},
	}
	s.pods = append(s.pods, pod)
	write := func(size int, parts ...string) {
		file := filepath.Join(append([]string{s.root}, parts...)...)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, make([]byte, size), 0o600))
	}
	uid := string(pod.UID)
	for _, v := range []string{"scratch", "memory", "claimed", "own"} {
		write(64<<10, "volumes", uid, v, "f")
	}
	write(32<<10, "logs", uid, "c", "0.log")
	write(40<<10, "pods", uid, "etc-hosts")
	write(80<<10, "pods", uid, "containers", "c", "00000000")
	write(20<<10, "pods", uid, "containers", "c", "00000001")

	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: "ns", Uid: uid}}
	sandbox, err := s.RunPodSandbox(t.Context(), config, "")
	require.NoError(t, err)
	id, err := s.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: &runtimeapi.ImageSpec{Image: "sha256:1"}}, config)
	require.NoError(t, err)
	require.NoError(t, s.StartContainer(t.Context(), id))
	at := "/kubepods/pod" + uid
	places[uid] = at
	s.cgroup(at, 500, 2_000_000)
	s.cgroup(at+"/"+sandbox, 20, 1)
	s.cgroup(at+"/"+id, 400, 1_500_000)
}

func proc() fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return fstest.MapFS{
		"meminfo": file("MemTotal: 1000 kB\nMemFree: 400 kB\nInactive(file): 100 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n"),
		"stat":    file("cpu 10 0 10 100 0 0 0 0 0 0\ncpu0 10 0 10 100 0 0 0 0 0 0\nbtime 1700000000\n"),
		"loadavg": file("0 0 0 1/77 9\n"), "sys/kernel/pid_max": file("500\n"), "sys/kernel/threads-max": file("400\n"),
		"self/net/dev": file("h\n eth0: 1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\n ens1: 1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\n"),
		"7/net/dev":    file("h\n eth0: 11 2 3 4 0 0 0 0 15 6 7 8 0 0 0 0\n"),
		"self/ns/net":  {Data: []byte("net:[1]"), Mode: fs.ModeSymlink}, "7/ns/net": {Data: []byte("net:[2]"), Mode: fs.ModeSymlink},
		"cpuinfo": file("physical id : 0\ncore id : 0\n"),
	}
}

func TestConfigOfProvider(t *testing.T) {
	_, err := New(Config{})
	for _, field := range []string{"NodeName", "Root", "Collector", "Proc", "Pods", "Volume", "LogDir", "Meter"} {
		require.ErrorContains(t, err, "summary: Config."+field+" is required")
	}
}

// measuredAll waits until all volumes and logs are measured.
func measuredAll(t testing.TB, p *Provider) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	require.Eventually(t, func() bool {
		s, err := p.Summary(t.Context(), All)
		require.NoError(t, err)
		for i := range s.Pods {
			if len(s.Pods[i].VolumeStats) < 4 || s.Pods[i].Containers[0].Logs == nil {
				return false
			}
		}
		return true
	}, time.Minute, 5*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}

func TestSummary(t *testing.T) {
	s, p := newScene(t, 2, nil)
	before, err := p.Summary(t.Context(), All)
	require.NoError(t, err)
	require.Empty(t, before.Pods[0].VolumeStats, "no measurements yet, and no wait")
	require.Nil(t, before.Pods[0].Containers[0].Logs)
	measuredAll(t, p)

	all, err := p.Summary(t.Context(), All)
	require.NoError(t, err)
	n := &all.Node
	require.Equal(t, "n", n.NodeName)
	require.EqualValues(t, 1700000000, n.StartTime.Unix())
	require.EqualValues(t, 9e9, *n.CPU.UsageCoreNanoSeconds)
	require.EqualValues(t, 800, *n.Memory.WorkingSetBytes)
	require.EqualValues(t, 1000<<10-800, *n.Memory.AvailableBytes)
	require.EqualValues(t, 0, *n.Swap.SwapUsageBytes)
	require.EqualValues(t, 10<<10, *n.Swap.SwapAvailableBytes)
	require.EqualValues(t, 10_000, n.CPU.PSI.Some.Total)
	require.InDelta(t, 0.5, n.CPU.PSI.Some.Avg10, 0)
	require.NotNil(t, n.IO.PSI)
	require.Equal(t, "eth0", n.Network.Name)
	require.Len(t, n.Network.Interfaces, 2)
	require.Positive(t, *n.Fs.CapacityBytes)
	require.Positive(t, *n.Runtime.ImageFs.CapacityBytes)
	require.Equal(t, n.Runtime.ImageFs.UsedBytes, n.Runtime.ContainerFs.UsedBytes)
	require.EqualValues(t, 400, *n.Rlimit.MaxPID)
	require.EqualValues(t, 77, *n.Rlimit.NumOfRunningProcesses)
	require.Len(t, n.SystemContainers, 1)
	require.Equal(t, statsapi.SystemContainerPods, n.SystemContainers[0].Name)
	require.EqualValues(t, 700, *n.SystemContainers[0].Memory.WorkingSetBytes)
	require.EqualValues(t, 1000-700, *n.SystemContainers[0].Memory.AvailableBytes)

	require.Len(t, all.Pods, 2)
	pod := &all.Pods[0]
	require.Equal(t, statsapi.PodReference{Namespace: "ns", Name: "p000", UID: "uid-0"}, pod.PodRef)
	require.EqualValues(t, 400, *pod.Memory.WorkingSetBytes)
	require.EqualValues(t, 300, *pod.Containers[0].Memory.WorkingSetBytes)
	require.EqualValues(t, 700, *pod.Containers[0].Memory.AvailableBytes)
	require.EqualValues(t, 50, *pod.Containers[0].Swap.SwapAvailableBytes)
	require.EqualValues(t, 11, *pod.Network.RxBytes)
	require.EqualValues(t, 3, *pod.ProcessStats.ProcessCount, "without the sandbox")
	require.EqualValues(t, 16<<10, *pod.Containers[0].Rootfs.UsedBytes)
	require.GreaterOrEqual(t, *pod.Containers[0].Logs.UsedBytes, uint64(32<<10))
	var names []string
	for _, v := range pod.VolumeStats {
		names = append(names, v.Name)
		require.GreaterOrEqual(t, *v.UsedBytes, uint64(64<<10))
	}
	require.Equal(t, []string{"scratch", "memory", "claimed", "own"}, names)
	require.Nil(t, pod.VolumeStats[0].PVCRef)
	require.Equal(t, statsapi.PVCReference{Namespace: "ns", Name: "data"}, *pod.VolumeStats[2].PVCRef)
	require.Equal(t, "p000-own", pod.VolumeStats[3].PVCRef.Name)
	files, inodes := p.Files(types.UID(pod.PodRef.UID))
	require.GreaterOrEqual(t, files, uint64(140<<10), "/etc/hosts and termination messages")
	require.EqualValues(t, 3, inodes)
	require.Equal(t, *pod.Containers[0].Rootfs.UsedBytes+*pod.Containers[0].Logs.UsedBytes+*pod.VolumeStats[0].UsedBytes+files, *pod.EphemeralStorage.UsedBytes, "memory and claims do not count")
	require.Equal(t, n.Fs.CapacityBytes, pod.EphemeralStorage.CapacityBytes)

	few, err := p.Summary(t.Context(), CPUAndMemory)
	require.NoError(t, err)
	require.Nil(t, few.Node.Fs)
	require.Nil(t, few.Node.Network)
	require.Nil(t, few.Node.IO)
	require.Nil(t, few.Node.Rlimit)
	require.Nil(t, few.Node.Runtime)
	require.Nil(t, few.Pods[0].EphemeralStorage)
	require.Nil(t, few.Pods[0].ProcessStats)
	require.Nil(t, few.Pods[0].VolumeStats)
	require.Nil(t, few.Pods[0].Containers[0].Rootfs)
	require.NotNil(t, few.Pods[0].Containers[0].Swap)
	require.Len(t, few.Node.SystemContainers, 1)

	// NodeAlone is read often, by evictions: it makes no runtime call for pods.
	s.refuse["ListPodSandbox"] = errors.New("no list")
	alone, err := p.Summary(t.Context(), NodeAlone)
	require.NoError(t, err)
	require.Empty(t, alone.Pods)
	require.Nil(t, alone.Node.Network)
	require.NotNil(t, alone.Node.Memory.AvailableBytes)
	require.Equal(t, n.Fs.CapacityBytes, alone.Node.Fs.CapacityBytes)
	require.Equal(t, n.Rlimit.MaxPID, alone.Node.Rlimit.MaxPID)
	require.Equal(t, n.Runtime.ImageFs.UsedBytes, alone.Node.Runtime.ImageFs.UsedBytes)
	for _, c := range alone.Node.SystemContainers {
		require.Equal(t, statsapi.SystemContainerPods, c.Name)
	}
	stored := p.Storage(t.Context(), s.pods)[types.UID(pod.PodRef.UID)]
	require.Equal(t, pod.VolumeStats, stored.VolumeStats)
	require.Equal(t, pod.Containers[0].Logs, stored.Containers[0].Logs)
	require.Nil(t, stored.Containers[0].Rootfs)
	delete(s.refuse, "ListPodSandbox")

	// Unreadable parts are omitted.
	s.refuse["ImageFsInfo"] = errors.New("no")
	part, err := p.Summary(t.Context(), All)
	require.NoError(t, err)
	require.Nil(t, part.Node.Runtime.ImageFs)
	require.NotNil(t, part.Node.Fs)
	s.refuse["ListPodSandbox"] = errors.New("no list")
	_, err = p.Summary(t.Context(), All)
	require.ErrorContains(t, err, "no list")
}

// Removed pods are forgotten with their volumes. A hanging measurement does not delay others.
func TestMeasuring(t *testing.T) {
	stuck := make(chan struct{})
	s, p := newScene(t, 2, func(s *scene) {
		s.cfg.Meter = usage.New(usage.Config{Ask: func(ctx context.Context, dir string) (usage.Usage, bool, error) {
			if !strings.Contains(dir, "uid-0/scratch") {
				return usage.Usage{}, false, nil
			}
			close(stuck)
			<-ctx.Done()
			return usage.Usage{}, false, ctx.Err()
		}})
		s.cfg.Period = 60 * time.Millisecond
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	<-stuck
	require.Eventually(t, func() bool {
		all, err := p.Summary(ctx, All)
		return err == nil && len(all.Pods[1].VolumeStats) == 4 && len(all.Pods[0].VolumeStats) == 3 && all.Pods[0].Containers[0].Logs != nil
	}, time.Minute, 5*time.Millisecond, "a hanging volume delays no other volume of its pod")
	cancel()
	require.NoError(t, <-done)
	dir := filepath.Join(s.root, "volumes/uid-1/scratch")
	_, known := s.cfg.Meter.Known(dir)
	require.True(t, known)
	s.pods = nil
	p.scan(t.Context())
	_, known = s.cfg.Meter.Known(dir)
	require.False(t, known)
	require.Empty(t, p.measure.pods)

	require.Empty(t, p.Claims())
	require.Empty(t, p.Logs())

	s.cfg.Period = -1
	off, err := New(s.cfg)
	require.NoError(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	require.NoError(t, off.Run(ended))
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestHTTP(t *testing.T) {
	s, p := newScene(t, 1, nil)
	for path, hasFs := range map[string]bool{"/stats/summary": true, "/stats/summary?only_cpu_and_memory=true": false, "/stats/summary?only_cpu_and_memory=false": true, "/stats/summary?only_cpu_and_memory=x": true} {
		w := get(p.Stats(), path)
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		var got statsapi.Summary
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		require.Equal(t, hasFs, got.Node.Fs != nil, path)
	}
	require.NotContains(t, get(p.Resource(), "/").Body.String(), "resource_scrape_error 1")
	s.refuse["ListContainers"] = errors.New("no list")
	require.Equal(t, http.StatusInternalServerError, get(p.Stats(), "/stats/summary").Code)
	require.Equal(t, http.StatusInternalServerError, get(p.Cadvisor(), "/metrics/cadvisor").Code)
	w := get(p.Resource(), "/metrics/resource")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "resource_scrape_error 1")
	require.NotContains(t, w.Body.String(), "node_")
}

// parsed returns the metrics that a handler writes, read with Prometheus' own parser.
func parsed(t testing.TB, h http.Handler) map[string]*dto.MetricFamily {
	w := get(h, "/")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	require.NoError(t, err)
	return families
}

// A compressed response has the same content.
func TestCompression(t *testing.T) {
	_, p := newScene(t, 1, nil)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	p.Cadvisor().ServeHTTP(w, r)
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
	plain, err := gzip.NewReader(w.Body)
	require.NoError(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(plain)
	require.NoError(t, err)
	require.Equal(t, shapes(parsed(t, p.Cadvisor())), shapes(families))
	require.Empty(t, get(p.Cadvisor(), "/").Header().Get("Content-Encoding"))
	require.Contains(t, get(p.Cadvisor(), "/").Header().Get("Content-Type"), "text/plain")
}

// shapes returns the type and labels of each family. All metrics of a family must have the same.
func shapes(families map[string]*dto.MetricFamily) map[string]string {
	out := map[string]string{}
	for name, family := range families {
		for _, m := range family.Metric {
			shape := family.GetType().String()
			for _, l := range m.Label {
				shape += " " + l.GetName()
			}
			if out[name] != "" && out[name] != shape {
				shape = "various: " + out[name] + "; " + shape
			}
			out[name] = shape
		}
	}
	return out
}

// No metric exists twice, and a registry, which validates all metrics, finds no error.
func TestMetricsAreConsistent(t *testing.T) {
	_, p := newScene(t, 3, nil)
	f, err := p.cadvisor(t.Context())
	require.NoError(t, err)
	s, err := p.Summary(t.Context(), CPUAndMemory)
	require.NoError(t, err)
	for _, f := range []families{f, resources(s)} {
		_, err := prometheus.Gatherers{f}.Gather()
		require.NoError(t, err)
		equalsExpfmt(t, f)
	}
	values := parsed(t, p.Cadvisor())
	value := func(name, id string) float64 {
		for _, m := range values[name].Metric {
			if has(m, "id", id) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		t.Fatalf("no %s of %s", name, id)
		return 0
	}
	require.InDelta(t, 2, value("container_cpu_usage_seconds_total", "/kubepods/poduid-1"), 0)
	require.InDelta(t, 8, value("container_cpu_usage_seconds_total", "/kubepods"), 0)
	require.InDelta(t, 9, value("container_cpu_usage_seconds_total", "/"), 0)
	require.InDelta(t, 1000, value("container_spec_memory_limit_bytes", "/kubepods/poduid-1"), 0)
	require.InDelta(t, 1050, value("container_spec_memory_swap_limit_bytes", "/kubepods/poduid-1"), 0)
	require.InDelta(t, 50000, value("container_spec_cpu_quota", "/kubepods/poduid-1"), 0)
	require.Zero(t, value("container_threads_max", "/kubepods/poduid-1"))
	for _, m := range values["container_memory_rss"].Metric {
		if has(m, "container", "c") {
			require.True(t, has(m, "image", "named:1"), "%v", m)
		}
	}
	for _, m := range values["container_network_receive_bytes_total"].Metric {
		require.True(t, has(m, "container", ""), "of the sandbox")
	}
}

func has(m *dto.Metric, name, value string) bool {
	for _, l := range m.Label {
		if l.GetName() == name {
			return l.GetValue() == value
		}
	}
	return false
}

// A volume whose measurement fails has unknown figures, not its previous ones.
func TestFailedMeasurementIsUnknown(t *testing.T) {
	errAsleep := errors.New("the driver is asleep")
	var asleep atomic.Bool
	s, p := newScene(t, 2, func(s *scene) {
		s.cfg.Meter = usage.New(usage.Config{Ask: func(_ context.Context, dir string) (usage.Usage, bool, error) {
			if asleep.Load() {
				return usage.Usage{}, false, errAsleep
			}
			return usage.Usage{Bytes: 5, Files: -1, Capacity: 7}, strings.HasSuffix(dir, "/claimed"), nil
		}})
		s.cfg.Period = time.Nanosecond
	})
	look := func() {
		p.scan(t.Context())
		<-p.measure.group.Idle()
	}
	look()
	claims := p.Claims()
	require.Len(t, claims, 3, "both pods have data, and one of their own")
	require.EqualValues(t, 5, claims[types.NamespacedName{Namespace: "ns", Name: "data"}].Bytes)
	require.Positive(t, claims[types.NamespacedName{Namespace: "ns", Name: "p001-own"}].Bytes)
	logs := p.Logs()
	require.Len(t, logs, 2)
	require.GreaterOrEqual(t, logs[0].Bytes, int64(32<<10))
	require.Equal(t, "c", logs[0].Container)
	all, err := p.Summary(t.Context(), All)
	require.NoError(t, err)
	v := all.Pods[0].VolumeStats[2]
	require.EqualValues(t, 5, *v.UsedBytes)
	require.Nil(t, v.InodesUsed, "the driver does not report it")

	asleep.Store(true)
	look()
	require.Empty(t, p.Claims())
	require.Empty(t, p.Logs())
	all, err = p.Summary(t.Context(), All)
	require.NoError(t, err)
	require.Empty(t, all.Pods[0].VolumeStats)
	asleep.Store(false)
	s.pods = s.pods[:1]
	look()
	require.Len(t, p.Claims(), 2)
}

// The runtime is a system container if its cgroup is known. A missing cgroup is omitted.
func TestSystemContainers(t *testing.T) {
	s, p := newScene(t, 1, func(s *scene) {
		s.cgroup("/system.slice/containerd.service", 700, 6_000_000)
		s.cfg.Systems = map[string]string{
			statsapi.SystemContainerPods: "/kubepods", statsapi.SystemContainerRuntime: "/system.slice/containerd.service",
			statsapi.SystemContainerKubelet: "/none", statsapi.SystemContainerMisc: "",
		}
	})
	var names []string
	all, err := p.Summary(t.Context(), CPUAndMemory)
	require.NoError(t, err)
	for _, c := range all.Node.SystemContainers {
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"runtime", "pods"}, names)
	runtime := all.Node.SystemContainers[0]
	require.EqualValues(t, 6e9, *runtime.CPU.UsageCoreNanoSeconds)
	require.EqualValues(t, 600, *runtime.Memory.WorkingSetBytes)
	require.Nil(t, runtime.Rootfs)
	require.Nil(t, runtime.Logs)

	// The service restarts in a cgroup of the same name.
	s.cgroup("/system.slice/containerd.service", 100, 1)
	all, err = p.Summary(t.Context(), CPUAndMemory)
	require.NoError(t, err)
	require.EqualValues(t, 1000, *all.Node.SystemContainers[0].CPU.UsageCoreNanoSeconds)
	require.Nil(t, all.Node.SystemContainers[0].CPU.UsageNanoCores, "the counter has run backwards")
}

// requireRates reads until rates are available, which takes a second.
func requireRates(t testing.TB, p *Provider) {
	// Each object has its own time of reading, so one rate may be available before another.
	require.Eventually(t, func() bool {
		s, err := p.Summary(t.Context(), CPUAndMemory)
		require.NoError(t, err)
		all := []*statsapi.CPUStats{s.Node.CPU, s.Pods[0].CPU, s.Pods[0].Containers[0].CPU}
		for _, c := range s.Node.SystemContainers {
			all = append(all, c.CPU)
		}
		return !slices.ContainsFunc(all, func(c *statsapi.CPUStats) bool { return c == nil || c.UsageNanoCores == nil })
	}, time.Minute, 100*time.Millisecond)
}

// Read errors are logged when they change, not with each scrape.
func TestReadErrorsAreLoggedOnChange(t *testing.T) {
	var log strings.Builder
	s, p := newScene(t, 1, func(s *scene) { s.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	told := func() int { return strings.Count(log.String(), "cannot read all usage of pods") }
	both := func() {
		for _, h := range []http.Handler{p.Stats(), p.Resource(), p.Cadvisor()} {
			require.Equal(t, http.StatusOK, get(h, "/").Code)
		}
	}
	both()
	require.Zero(t, told(), log.String())
	s.refuse["ImageFsInfo"] = errors.New("no images")
	for range 3 {
		both()
	}
	require.Equal(t, 2, told(), "of the Summary and of cAdvisor's metrics")
	require.Contains(t, log.String(), "no images")
	delete(s.refuse, "ImageFsInfo")
	both()
	s.refuse["ImageFsInfo"] = errors.New("no images")
	both()
	require.Equal(t, 4, told())
}
