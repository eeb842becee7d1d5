package stats_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/stats"
)

// scene is a runtime with calls that are counted, and refused.
type scene struct {
	*fake.Runtime
	t testing.TB

	mu     sync.Mutex
	calls  map[string]int
	refuse map[string]error
}

func newScene(t testing.TB) *scene {
	s := &scene{t: t, calls: map[string]int{}, refuse: map[string]error{}}
	rt, err := fake.New(fake.Config{AnyImage: true, ImageFilesystem: "/images", Intercept: func(_ context.Context, call string, _ any) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls[call]++
		return s.refuse[call]
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	s.Runtime = rt
	return s
}

// pod starts a pod with containers and returns the IDs, that of the sandbox first.
func (s *scene) pod(name string, containers ...string) (ids []string) {
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "ns", Uid: "uid-" + name}, Linux: &runtimeapi.LinuxPodSandboxConfig{}}
	sandbox, err := s.RunPodSandbox(s.t.Context(), config, "")
	require.NoError(s.t, err)
	ids = []string{sandbox}
	for _, c := range containers {
		ids = append(ids, s.container(sandbox, config, c, 0))
	}
	return ids
}

func (s *scene) container(sandbox string, config *runtimeapi.PodSandboxConfig, name string, attempt uint32) string {
	id, err := s.CreateContainer(s.t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt}, Image: &runtimeapi.ImageSpec{Image: "busybox", UserSpecifiedImage: "busybox:1"},
	}, config)
	require.NoError(s.t, err)
	require.NoError(s.t, s.StartContainer(s.t.Context(), id))
	return id
}

func (s *scene) collector(change func(*stats.CollectorConfig)) *stats.Collector {
	cfg := stats.CollectorConfig{Runtime: s}
	if change != nil {
		change(&cfg)
	}
	c, err := stats.NewCollector(cfg)
	require.NoError(s.t, err)
	return c
}

func collect(t testing.TB, c *stats.Collector, w stats.Wanted) []stats.Pod {
	pods, unread, err := c.Collect(t.Context(), w)
	require.NoError(t, err)
	require.Empty(t, unread)
	return pods
}

// cgroups is a hierarchy of version 2 with the cgroups of a pod, a process in each: memory
// and the CPU time, in microseconds, are those given.
func cgroups(files fstest.MapFS, pod string, usage map[string][2]string) {
	put := func(name, text string) { files[strings.TrimPrefix(name, "/")] = &fstest.MapFile{Data: []byte(text)} }
	for name, of := range usage {
		put(pod+name+"/memory.current", of[0])
		put(pod+name+"/memory.stat", "inactive_file 0\nanon 1\n")
		put(pod+name+"/cpu.stat", "usage_usec "+of[1]+"\n")
		put(pod+name+"/pids.current", "2\n")
		put(pod+name+"/cgroup.procs", "7\n")
	}
}

func proc(own string) fstest.MapFS {
	return fstest.MapFS{
		"7/net/dev":   {Data: []byte("h\nh\n eth0: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n")},
		"7/ns/net":    {Data: []byte(own), Mode: fs.ModeSymlink},
		"self/ns/net": {Data: []byte("net:[1]"), Mode: fs.ModeSymlink},
	}
}

func v2(t testing.TB, files fs.FS) *stats.Reader {
	r, err := stats.New(stats.Config{FS: files, Version: stats.V2})
	require.NoError(t, err)
	return r
}

func TestConfig(t *testing.T) {
	_, err := stats.NewCollector(stats.CollectorConfig{})
	require.ErrorContains(t, err, "CollectorConfig.Runtime is required")
	s := newScene(t)
	_, err = stats.NewCollector(stats.CollectorConfig{Runtime: s, Reader: v2(t, fstest.MapFS{})})
	require.ErrorContains(t, err, "CollectorConfig.PodCgroups is required")
	_, err = stats.NewCollector(stats.CollectorConfig{Runtime: s, StorageAge: -1})
	require.ErrorContains(t, err, "CollectorConfig.StorageAge is below zero")
}

// Without cgroups all is the runtime's word.
func TestFromTheRuntime(t *testing.T) {
	s := newScene(t)
	ids := s.pod("a", "x", "y")
	pods := collect(t, s.collector(nil), stats.Wanted{Network: true, Storage: true})
	require.Len(t, pods, 1)
	p := pods[0]
	require.Equal(t, []string{"ns", "a", "uid-a", ids[0], ""}, []string{p.Namespace, p.Name, p.UID, p.Sandbox, p.Cgroup})
	require.Equal(t, "x", p.Containers[0].Name)
	require.Equal(t, "busybox:1", p.Containers[0].Image)
	require.EqualValues(t, 8<<20, *p.Containers[0].Usage.Memory.WorkingSet)
	require.EqualValues(t, 16<<20, *p.Usage.Memory.WorkingSet)
	require.EqualValues(t, 10_000_000, *p.Containers[0].NanoCores, "as the runtime has computed it")
	require.Equal(t, "/images", p.Containers[0].Writable.Mountpoint)
	require.EqualValues(t, 16<<10, *p.Containers[0].Writable.Used)
	require.Equal(t, "eth0", p.Network.Find().Name)

	// A runtime without statistics of pods: a pod is the sum of its containers.
	s.refuse["ListPodSandboxStats"] = status.Error(codes.Unimplemented, "no")
	p = collect(t, s.collector(nil), stats.Wanted{Storage: true})[0]
	require.EqualValues(t, 16<<20, *p.Usage.Memory.WorkingSet)
	require.NotNil(t, p.Usage.CPU.Total)
	require.Nil(t, p.Network)

	// One that fails says so, and the rest is known.
	s.refuse["ListContainerStats"] = errors.New("broken")
	pods, unread, err := s.collector(nil).Collect(t.Context(), stats.Wanted{})
	require.NoError(t, err)
	require.Len(t, unread, 1)
	require.ErrorContains(t, unread[0], "broken")
	require.Nil(t, pods[0].Usage.CPU.Total)
	require.Nil(t, pods[0].Containers[0].Usage.Memory.Usage)
	s.refuse["ListPodSandboxStats"] = errors.New("broken, too")
	_, unread, err = s.collector(nil).Collect(t.Context(), stats.Wanted{})
	require.NoError(t, err)
	require.ErrorContains(t, errors.Join(unread...), "broken, too")
	s.refuse["ListPodSandbox"] = errors.New("no sandboxes")
	_, _, err = s.collector(nil).Collect(t.Context(), stats.Wanted{})
	require.ErrorContains(t, err, "no sandboxes")
	delete(s.refuse, "ListPodSandbox")
	s.refuse["ListContainers"] = errors.New("no list")
	_, _, err = s.collector(nil).Collect(t.Context(), stats.Wanted{})
	require.ErrorContains(t, err, "no list")
}

// Of a pod with a cgroup the runtime is asked for storage alone, and not often.
func TestFromCgroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		ids := s.pod("a", "x", "y")
		files := fstest.MapFS{}
		pod := "/kubepods/pod1"
		cgroups(files, pod, map[string][2]string{"": {"600", "3000000"}, "/" + ids[0]: {"100", "1"}, "/cri-containerd-" + ids[1] + ".scope": {"200", "1000000"}, "/crio-conmon-" + ids[2] + ".scope": {"9", "9"}, "/crio-" + ids[2] + ".scope": {"300", "2000000"}})
		c := s.collector(func(cfg *stats.CollectorConfig) {
			cfg.Reader, cfg.Proc = v2(t, files), proc("net:[2]")
			cfg.PodCgroups = func() map[string]string { return map[string]string{"uid-a": pod} }
		})
		p := collect(t, c, stats.Wanted{Network: true})[0]
		require.Equal(t, []string{pod, pod + "/" + ids[0]}, []string{p.Cgroup, p.SandboxCgroup})
		require.EqualValues(t, 600, *p.Usage.Memory.Usage)
		require.Equal(t, pod+"/cri-containerd-"+ids[1]+".scope", p.Containers[0].Cgroup)
		require.EqualValues(t, 200, *p.Containers[0].Usage.Memory.Usage)
		require.EqualValues(t, 300, *p.Containers[1].Usage.Memory.Usage)
		require.EqualValues(t, 10, *p.Network.Find().Received.Bytes)
		require.Nil(t, p.NanoCores, "there is one reading")
		require.Nil(t, p.Details, "nobody wants them")
		require.Nil(t, p.Containers[0].Details)
		require.Zero(t, s.calls["ListContainerStats"]+s.calls["ListPodSandboxStats"], "the runtime was asked for nothing but lists")

		time.Sleep(2 * time.Second)
		cgroups(files, pod, map[string][2]string{"": {"600", "4000000"}, "/crio-" + ids[2] + ".scope": {"300", "1000000"}})
		p = collect(t, c, stats.Wanted{Storage: true, Details: true})[0]
		require.EqualValues(t, 500_000_000, *p.NanoCores)
		require.Nil(t, p.Containers[1].NanoCores, "its counter has run backwards, and its runtime's word is not of processors")
		require.EqualValues(t, 16<<10, *p.Containers[0].Writable.Used)
		require.NotNil(t, p.Containers[0].Details)
		require.Nil(t, p.Network)
		for range 5 {
			time.Sleep(time.Second)
			require.NotNil(t, collect(t, c, stats.Wanted{Storage: true})[0].Containers[0].Writable)
		}
		require.Equal(t, 1, s.calls["ListContainerStats"])
		time.Sleep(5*time.Second - 1)
		collect(t, c, stats.Wanted{Storage: true})
		require.Equal(t, 1, s.calls["ListContainerStats"])
		time.Sleep(time.Nanosecond)
		collect(t, c, stats.Wanted{Storage: true})
		require.Equal(t, 2, s.calls["ListContainerStats"])
	})
}

// A pod on the machine's network has none of its own, and one whose process ends meanwhile
// has none that is known.
func TestNetworks(t *testing.T) {
	s := newScene(t)
	ids := s.pod("a", "x")
	files := fstest.MapFS{}
	cgroups(files, "/p", map[string][2]string{"": {"6", "3"}, "/" + ids[0]: {"1", "1"}, "/" + ids[1]: {"2", "1"}})
	network := func(proc fs.FS) *stats.Network {
		c := s.collector(func(cfg *stats.CollectorConfig) {
			cfg.Reader, cfg.Proc = v2(t, files), proc
			cfg.PodCgroups = func() map[string]string { return map[string]string{"uid-a": "/p"} }
		})
		return collect(t, c, stats.Wanted{Network: true})[0].Network
	}
	require.NotNil(t, network(proc("net:[2]")))
	require.Nil(t, network(proc("net:[1]")))
	gone := proc("net:[2]")
	delete(gone, "7/ns/net")
	require.Nil(t, network(gone))
	gone = proc("net:[2]")
	delete(gone, "self/ns/net")
	require.Nil(t, network(gone))
	require.Nil(t, network(nil))
	delete(files, "p/"+ids[0]+"/cgroup.procs")
	require.NotNil(t, network(proc("net:[2]")), "then any process of the pod will do")
	files["p/"+ids[0]+"/cgroup.procs"] = &fstest.MapFile{}
	require.NotNil(t, network(proc("net:[2]")), "of a sandbox without processes, too")
	maps.DeleteFunc(files, func(name string, _ *fstest.MapFile) bool { return strings.Contains(name, ids[0]) })
	files["cgroup.procs"] = &fstest.MapFile{Data: []byte("9\n")}
	require.NotNil(t, network(proc("net:[2]")), "of a sandbox without a cgroup, too, and not of the machine")
}

// A pod that runs elsewhere than in its cgroup uses what its runtime says, not nothing.
func TestCgroupWithoutItsPod(t *testing.T) {
	s := newScene(t)
	ids := s.pod("a", "x")
	files := fstest.MapFS{}
	cgroups(files, "/p", map[string][2]string{"": {"0", "0"}})
	c := s.collector(func(cfg *stats.CollectorConfig) {
		cfg.Reader = v2(t, files)
		cfg.PodCgroups = func() map[string]string { return map[string]string{"uid-a": "/p"} }
	})
	p := collect(t, c, stats.Wanted{})[0]
	require.Empty(t, p.Cgroup)
	require.EqualValues(t, 8<<20, *p.Usage.Memory.Usage)
	// One of two: it is the runtime's word for the other.
	ids = append(ids, s.pod("b", "y", "z")...)
	cgroups(files, "/q", map[string][2]string{"": {"50", "5"}, "/" + ids[3]: {"40", "4"}})
	c = s.collector(func(cfg *stats.CollectorConfig) {
		cfg.Reader = v2(t, files)
		cfg.PodCgroups = func() map[string]string { return map[string]string{"uid-b": "/q", "uid-a": "/gone"} }
	})
	p = collect(t, c, stats.Wanted{})[1]
	require.EqualValues(t, 50, *p.Usage.Memory.Usage)
	require.EqualValues(t, 40, *p.Containers[0].Usage.Memory.Usage)
	require.EqualValues(t, 8<<20, *p.Containers[1].Usage.Memory.Usage)
	// The other way round: the order of containers is that of their names.
	delete(files, "q/"+ids[3]+"/memory.current")
	delete(files, "q/"+ids[3]+"/memory.stat")
	delete(files, "q/"+ids[3]+"/cpu.stat")
	delete(files, "q/"+ids[3]+"/pids.current")
	delete(files, "q/"+ids[3]+"/cgroup.procs")
	cgroups(files, "/q", map[string][2]string{"": {"50", "5"}, "/" + ids[4]: {"40", "4"}})
	p = collect(t, c, stats.Wanted{})[1]
	require.EqualValues(t, 8<<20, *p.Containers[0].Usage.Memory.Usage)
	require.EqualValues(t, 40, *p.Containers[1].Usage.Memory.Usage)
	cgroups(files, "/q", map[string][2]string{"/" + ids[3]: {"40", "4"}})
	// What cannot be read is named.
	files["q/"+ids[3]+"/memory.current"] = &fstest.MapFile{Data: []byte("half 1")}
	pods, unread, err := c.Collect(t.Context(), stats.Wanted{})
	require.NoError(t, err)
	require.Len(t, unread, 1)
	require.ErrorContains(t, unread[0], ids[3]+"/memory.current")
	require.EqualValues(t, 8<<20, *pods[1].Containers[0].Usage.Memory.Usage, "the runtime was asked for the other container, and knows")
	s.pod("c", "w")
	files["r"] = &fstest.MapFile{} // no folder
	c = s.collector(func(cfg *stats.CollectorConfig) {
		cfg.Reader = v2(t, files)
		cfg.PodCgroups = func() map[string]string { return map[string]string{"uid-c": "/r"} }
	})
	_, unread, err = c.Collect(t.Context(), stats.Wanted{})
	require.NoError(t, err)
	require.ErrorContains(t, errors.Join(unread...), "r: not")
}

// A pod whose own cgroup is gone, but not yet those in it, uses what its runtime says.
func TestPodsCgroupIsGone(t *testing.T) {
	s := newScene(t)
	ids, files := s.pod("a", "x"), fstest.MapFS{}
	cgroups(files, "/p", map[string][2]string{"/" + ids[0]: {"1", "1"}, "/" + ids[1]: {"2", "1"}})
	p := collect(t, s.collector(func(cfg *stats.CollectorConfig) {
		cfg.Reader = v2(t, files)
		cfg.PodCgroups = func() map[string]string { return map[string]string{"uid-a": "/p"} }
	}), stats.Wanted{Details: true})[0]
	require.Empty(t, p.Cgroup)
	require.Nil(t, p.Details)
	require.NotNil(t, p.Containers[0].Details)
	require.EqualValues(t, 2, *p.Containers[0].Usage.Memory.Usage)
	require.EqualValues(t, 8<<20, *p.Usage.Memory.Usage)
}

func TestRunning(t *testing.T) {
	sandbox := func(id, uid string, created int64, state runtimeapi.PodSandboxState) *runtimeapi.PodSandbox {
		return &runtimeapi.PodSandbox{Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Name: uid, Namespace: "n", Uid: uid}, CreatedAt: created, State: state}
	}
	container := func(id, sandbox, name string, attempt uint32, state runtimeapi.ContainerState) *runtimeapi.Container {
		return &runtimeapi.Container{Id: id, PodSandboxId: sandbox, Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt}, State: state}
	}
	const ready, running = runtimeapi.PodSandboxState_SANDBOX_READY, runtimeapi.ContainerState_CONTAINER_RUNNING
	sandboxes := []*runtimeapi.PodSandbox{
		sandbox("old", "a", 1, ready), sandbox("new", "a", 2, ready), sandbox("dead", "a", 3, runtimeapi.PodSandboxState_SANDBOX_NOTREADY),
		sandbox("idle", "b", 1, ready), sandbox("nobody's", "", 1, ready), nil,
	}
	containers := []*runtimeapi.Container{
		container("1", "old", "c", 9, running), container("2", "new", "c", 1, running), container("3", "new", "c", 2, running), container("4", "new", "c", 0, running),
		container("5", "new", "b", 0, running), container("0", "new", "b", 0, running), container("6", "new", "d", 0, runtimeapi.ContainerState_CONTAINER_EXITED),
		container("7", "idle", "c", 0, runtimeapi.ContainerState_CONTAINER_CREATED), container("8", "dead", "c", 0, running), container("9", "gone", "c", 0, running), nil,
	}
	for range 2 {
		pods := stats.Running(sandboxes, containers)
		require.Len(t, pods, 1)
		require.Equal(t, "new", pods[0].Sandbox)
		var ids []string
		for _, c := range pods[0].Containers {
			ids = append(ids, c.ID)
		}
		require.Equal(t, []string{"5", "3"}, ids, "the newest of each name that runs, by name")
		slices.Reverse(sandboxes) // runtimes list them in no order
	}
}

// What a runtime says without a time was not measured, and zeros of containerd that stand
// for nothing known are unknown.
func TestMerge(t *testing.T) {
	value := func(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }
	merged := func(change func(*runtimeapi.ContainerStats)) stats.Pod {
		s := &runtimeapi.ContainerStats{
			Attributes:    &runtimeapi.ContainerAttributes{Id: "c"},
			Cpu:           &runtimeapi.CpuUsage{Timestamp: 5e9, UsageCoreNanoSeconds: value(7), UsageNanoCores: value(0), Psi: &runtimeapi.PsiStats{Some: &runtimeapi.PsiData{Total: 9}}},
			Memory:        &runtimeapi.MemoryUsage{Timestamp: 6e9, WorkingSetBytes: value(10), UsageBytes: value(20), AvailableBytes: value(0)},
			Swap:          &runtimeapi.SwapUsage{Timestamp: 6e9, SwapUsageBytes: value(3)},
			Io:            &runtimeapi.IoUsage{Timestamp: 6e9, Psi: &runtimeapi.PsiStats{Some: &runtimeapi.PsiData{Total: 4}}},
			WritableLayer: &runtimeapi.FilesystemUsage{Timestamp: 4e9, UsedBytes: value(1)},
		}
		if change != nil {
			change(s)
		}
		pods := []stats.Pod{{Sandbox: "s", Containers: []stats.Container{{ID: "c"}}}}
		stats.Merge(pods, []*runtimeapi.ContainerStats{s}, nil)
		return pods[0]
	}
	c := merged(nil).Containers[0]
	require.Equal(t, time.Unix(5, 0), c.Usage.Time)
	require.EqualValues(t, 7, *c.Usage.CPU.Total)
	require.Nil(t, c.NanoCores)
	require.Nil(t, c.Usage.Memory.Limit)
	require.EqualValues(t, 9, c.Usage.CPU.Pressure.Some.Total)
	require.EqualValues(t, 4, c.Usage.IO.Some.Total)
	require.EqualValues(t, 3, *c.Usage.Swap.Usage)
	require.EqualValues(t, 1, *c.Writable.Used)
	require.Equal(t, time.Unix(4, 0), c.Writable.Time)
	require.EqualValues(t, 20, *merged(nil).Usage.Memory.Usage, "the pod is the sum of its containers")

	c = merged(func(s *runtimeapi.ContainerStats) {
		s.Cpu.Timestamp, s.Memory.Timestamp, s.Swap.Timestamp, s.Io.Timestamp, s.WritableLayer.Timestamp = 0, 0, 0, -1, 0
	}).Containers[0]
	require.Zero(t, c.Usage)
	require.Nil(t, c.Writable)
	c = merged(func(s *runtimeapi.ContainerStats) {
		s.Memory.AvailableBytes, s.Cpu.UsageNanoCores, s.Cpu.UsageCoreNanoSeconds = value(90), value(8), value(1<<63)
	}).Containers[0]
	require.EqualValues(t, 100, *c.Usage.Memory.Limit)
	require.EqualValues(t, 8, *c.NanoCores)
	require.Nil(t, c.Usage.CPU.Total, "more than time is")
	require.Equal(t, time.Unix(5, 0), c.Usage.Time, "of processors, though only their rate is known")
	require.NotPanics(t, func() {
		pods := []stats.Pod{{Sandbox: "s", Containers: []stats.Container{{ID: "c"}, {ID: "d"}}}}
		stats.Merge(pods, []*runtimeapi.ContainerStats{nil, {}, {Attributes: &runtimeapi.ContainerAttributes{Id: "c"}}}, []*runtimeapi.PodSandboxStats{nil, {}, {Attributes: &runtimeapi.PodSandboxAttributes{Id: "s"}, Linux: &runtimeapi.LinuxPodSandboxStats{Network: &runtimeapi.NetworkUsage{}}}})
		require.Zero(t, pods[0].Usage)
		require.Nil(t, pods[0].Network)
	})
	// What a cgroup has told stays; what one container lacks is not known of the pod.
	pods := []stats.Pod{{Sandbox: "s", Containers: []stats.Container{{ID: "c", Usage: stats.Usage{Memory: stats.Memory{Usage: new(uint64(1)), WorkingSet: new(uint64(1))}}}, {ID: "d"}}}}
	stats.Merge(pods, []*runtimeapi.ContainerStats{{Attributes: &runtimeapi.ContainerAttributes{Id: "c"}, Memory: &runtimeapi.MemoryUsage{Timestamp: 1, UsageBytes: value(5), RssBytes: value(6)}}}, nil)
	require.EqualValues(t, 1, *pods[0].Containers[0].Usage.Memory.Usage)
	require.EqualValues(t, 6, *pods[0].Containers[0].Usage.Memory.RSS)
	require.Nil(t, pods[0].Usage.Memory.Usage)
	// All that a runtime can tell is taken, once.
	cpu, psi := &runtimeapi.CpuUsage{Timestamp: 3e9, UsageCoreNanoSeconds: value(7)}, &runtimeapi.PsiStats{Some: &runtimeapi.PsiData{Total: 4}}
	memory := func(available uint64) *runtimeapi.MemoryUsage {
		return &runtimeapi.MemoryUsage{Timestamp: 6e9, WorkingSetBytes: value(10), AvailableBytes: value(available), Psi: psi}
	}
	pods = []stats.Pod{{Sandbox: "s", Containers: []stats.Container{{ID: "c", Usage: stats.Usage{Swap: stats.Swap{Usage: new(uint64(2))}}}}}}
	sandbox := &runtimeapi.LinuxPodSandboxStats{
		Cpu: cpu, Memory: memory(1), Process: &runtimeapi.ProcessUsage{Timestamp: 1, ProcessCount: value(5)}, Network: &runtimeapi.NetworkUsage{Interfaces: []*runtimeapi.NetworkInterfaceUsage{{Name: "net1"}, nil}},
		Containers: []*runtimeapi.ContainerStats{{Attributes: &runtimeapi.ContainerAttributes{Id: "c"}, Memory: memory(1), Swap: &runtimeapi.SwapUsage{Timestamp: 6e9, SwapUsageBytes: value(3)}}},
	}
	before := time.Now()
	stats.Merge(pods, nil, []*runtimeapi.PodSandboxStats{{Attributes: &runtimeapi.PodSandboxAttributes{Id: "s"}, Linux: sandbox}})
	for _, u := range []stats.Usage{pods[0].Usage, pods[0].Containers[0].Usage} {
		require.EqualValues(t, 11, *u.Memory.Limit)
		require.EqualValues(t, 4, u.Memory.Pressure.Some.Total)
	}
	require.Equal(t, time.Unix(3, 0), pods[0].Usage.Time)
	require.Equal(t, time.Unix(6, 0), pods[0].Containers[0].Usage.Time)
	require.EqualValues(t, 2, *pods[0].Containers[0].Usage.Swap.Usage, "what the cgroup has told stays")
	require.EqualValues(t, 5, *pods[0].Usage.Processes)
	require.Equal(t, []stats.Interface{{Name: "net1"}}, pods[0].Network.Interfaces)
	require.WithinRange(t, pods[0].Network.Time, before, time.Now(), "the runtime does not say when")
	sandbox.Network.Timestamp, pods[0].Network = 9e9, nil
	sandbox.Process.ProcessCount = value(6)
	stats.Merge(pods, nil, []*runtimeapi.PodSandboxStats{{Attributes: &runtimeapi.PodSandboxAttributes{Id: "s"}, Linux: sandbox}})
	require.Equal(t, time.Unix(9, 0), pods[0].Network.Time)
	require.EqualValues(t, 5, *pods[0].Usage.Processes)
	// A time goes with the figure of processors that it is of.
	pods = []stats.Pod{{Sandbox: "s", Usage: stats.Usage{Time: time.Unix(1, 0), IO: &stats.Pressure{}, Memory: stats.Memory{Usage: new(uint64(1))}}}}
	sandbox = &runtimeapi.LinuxPodSandboxStats{Cpu: cpu, Io: &runtimeapi.IoUsage{Timestamp: 6e9, Psi: psi}}
	stats.Merge(pods, nil, []*runtimeapi.PodSandboxStats{{Attributes: &runtimeapi.PodSandboxAttributes{Id: "s"}, Linux: sandbox}})
	require.Equal(t, time.Unix(3, 0), pods[0].Usage.Time)
	require.EqualValues(t, 7, *pods[0].Usage.CPU.Total)
	require.Equal(t, &stats.Pressure{}, pods[0].Usage.IO)
	require.Nil(t, pods[0].Network)
	require.Nil(t, pods[0].NanoCores)
	sandbox.Cpu = &runtimeapi.CpuUsage{Timestamp: 3e9, UsageNanoCores: value(8)}
	for range 2 {
		stats.Merge(pods, nil, []*runtimeapi.PodSandboxStats{{Attributes: &runtimeapi.PodSandboxAttributes{Id: "s"}, Linux: sandbox}})
		require.EqualValues(t, 8, *pods[0].NanoCores)
		sandbox.Cpu.UsageNanoCores = value(9)
	}
	pods[0].Usage.Time, sandbox.Cpu = time.Unix(1, 0), &runtimeapi.CpuUsage{Timestamp: 9e9}
	stats.Merge(pods, nil, []*runtimeapi.PodSandboxStats{{Attributes: &runtimeapi.PodSandboxAttributes{Id: "s"}, Linux: sandbox}})
	require.Equal(t, time.Unix(1, 0), pods[0].Usage.Time)
	// The sum is as old as the oldest of what it is of.
	for _, seconds := range [][]int64{{1, 2}, {2, 1}} {
		pods = []stats.Pod{{Containers: []stats.Container{{Usage: stats.Usage{Time: time.Unix(seconds[0], 0)}}, {Usage: stats.Usage{Time: time.Unix(seconds[1], 0)}}}}}
		stats.Merge(pods, nil, nil)
		require.Equal(t, time.Unix(1, 0), pods[0].Usage.Time)
	}
	// Of a pod of which anything is known, what is not known is not made up.
	for _, known := range []stats.Usage{{CPU: stats.CPU{Total: new(time.Second)}}, {Memory: stats.Memory{Usage: new(uint64(1))}}, {Memory: stats.Memory{WorkingSet: new(uint64(1))}}} {
		pods := []stats.Pod{{Usage: known, Containers: []stats.Container{{Usage: stats.Usage{Swap: stats.Swap{Usage: new(uint64(7))}}}}}}
		stats.Merge(pods, nil, nil)
		require.Equal(t, known, pods[0].Usage)
	}
}

// Many may ask at a time; what is gone is forgotten.
func TestManyAtATime(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"a", "b", "c"} {
		s.pod(name, "x")
	}
	c := s.collector(nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { require.Len(t, collect(t, c, stats.Wanted{Storage: true, Network: true}), 3) })
	}
	wg.Wait()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := c.Collect(ended, stats.Wanted{})
	require.Error(t, err)
	require.NotEmpty(t, maps.Clone(s.calls))
}

// reads counts how often folders are listed.
type reads struct {
	fstest.MapFS
	lists int
}

func (r *reads) ReadDir(name string) ([]fs.DirEntry, error) {
	r.lists++
	return r.MapFS.ReadDir(name)
}

// A pod's cgroup is listed while one of its containers was not found there yet, and not with
// each reading.
func TestNamesOfCgroups(t *testing.T) {
	s := newScene(t)
	ids := s.pod("a", "x", "y")
	files := &reads{MapFS: fstest.MapFS{}}
	pod := "/kubepods/pod1"
	cgroups(files.MapFS, pod, map[string][2]string{"": {"600", "3"}, "/" + ids[0]: {"100", "1"}, "/" + ids[1]: {"200", "1"}, "/crio-conmon-" + ids[2] + ".scope": {"9", "9"}})
	c := s.collector(func(cfg *stats.CollectorConfig) {
		cfg.Reader = v2(t, files)
		cfg.PodCgroups = func() map[string]string { return map[string]string{"uid-a": pod} }
	})
	for range 2 {
		p := collect(t, c, stats.Wanted{})[0]
		require.Equal(t, pod+"/"+ids[1], p.Containers[0].Cgroup)
		require.Empty(t, p.Containers[1].Cgroup)
		require.EqualValues(t, 8<<20, *p.Containers[1].Usage.Memory.Usage, "the runtime's word")
	}
	require.Equal(t, 2, files.lists)
	cgroups(files.MapFS, pod, map[string][2]string{"/cri-containerd-" + ids[2] + ".scope": {"300", "1"}})
	for range 3 {
		require.Equal(t, pod+"/cri-containerd-"+ids[2]+".scope", collect(t, c, stats.Wanted{})[0].Containers[1].Cgroup)
	}
	require.Equal(t, 3, files.lists)

	maps.DeleteFunc(files.MapFS, func(name string, _ *fstest.MapFile) bool { return strings.Contains(name, ids[1]) })
	p := collect(t, c, stats.Wanted{})[0]
	require.Empty(t, p.Containers[0].Cgroup, "it has gone meanwhile")
	require.EqualValues(t, 8<<20, *p.Containers[0].Usage.Memory.Usage)
	require.EqualValues(t, 600, *p.Usage.Memory.Usage)
	require.Equal(t, 3, files.lists)
}
