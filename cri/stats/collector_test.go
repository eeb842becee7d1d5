package stats_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/stats"
)

// scene is a runtime that counts and refuses calls.
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

// pod starts a pod with containers and returns the IDs, the sandbox first.
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
	cfg := stats.CollectorConfig{Owner: cri.Owner{Unlabelled: true}, Runtime: s}
	change(&cfg)
	c, err := stats.NewCollector(cfg)
	require.NoError(s.t, err)
	return c
}

func (s *scene) plain() *stats.Collector { return s.collector(func(*stats.CollectorConfig) {}) }

// onCgroups configures a collector for the pods' cgroups, by UID.
func onCgroups(t testing.TB, cfg *stats.CollectorConfig, files fs.FS, pods map[string]string) {
	cfg.Reader, cfg.PodCgroups = v2(t, files), func() map[string]string { return pods }
}

func collect(t testing.TB, c *stats.Collector, w stats.CollectOptions) []stats.Pod {
	pods, unread, err := c.Collect(t.Context(), w)
	require.NoError(t, err)
	require.Empty(t, unread)
	return pods
}

// cgroups makes version 2 cgroups of a pod, with a process in each. usage has the memory and the
// CPU time, in microseconds.
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
	_, err = stats.NewCollector(stats.CollectorConfig{Owner: cri.Owner{Unlabelled: true}, Runtime: s, Reader: v2(t, fstest.MapFS{})})
	require.ErrorContains(t, err, "CollectorConfig.PodCgroups is required")
}

// Without cgroups all figures come from the runtime.
func TestFromTheRuntime(t *testing.T) {
	s := newScene(t)
	ids := s.pod("a", "x", "y")
	pods := collect(t, s.plain(), stats.CollectOptions{Network: true, Storage: true})
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

	// If the runtime has no pod statistics, a pod is the sum of its containers.
	s.refuse["ListPodSandboxStats"] = status.Error(codes.Unimplemented, "no")
	p = collect(t, s.plain(), stats.CollectOptions{Storage: true})[0]
	require.EqualValues(t, 16<<20, *p.Usage.Memory.WorkingSet)
	require.NotNil(t, p.Usage.CPU.Total)
	require.Nil(t, p.Network)

	// A failed call is reported, and the remaining figures are present.
	s.refuse["ListContainerStats"] = errors.New("broken")
	for range 2 {
		pods, unread, err := s.plain().Collect(t.Context(), stats.CollectOptions{})
		require.NoError(t, err)
		require.ErrorContains(t, errors.Join(unread...), "broken")
		require.Nil(t, pods[0].Usage.CPU.Total)
		require.Nil(t, pods[0].Containers[0].Usage.Memory.Usage)
		s.refuse["ListPodSandboxStats"] = errors.New("broken, too")
	}
	for _, call := range []string{"ListPodSandbox", "ListContainers"} {
		s.refuse = map[string]error{call: errors.New("no list")}
		_, _, err := s.plain().Collect(t.Context(), stats.CollectOptions{})
		require.ErrorContains(t, err, "no list")
	}
}

// For a pod with a cgroup the runtime is only used for storage, at a limited rate.
func TestFromCgroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		ids := s.pod("a", "x", "y")
		files := fstest.MapFS{}
		pod := "/kubepods/pod1"
		cgroups(files, pod, map[string][2]string{"": {"600", "3000000"}, "/" + ids[0]: {"100", "1"}, "/cri-containerd-" + ids[1] + ".scope": {"200", "1000000"}, "/crio-conmon-" + ids[2] + ".scope": {"9", "9"}, "/crio-" + ids[2] + ".scope": {"300", "2000000"}})
		c := s.collector(func(cfg *stats.CollectorConfig) {
			onCgroups(t, cfg, files, map[string]string{"uid-a": pod})
			cfg.Proc = proc("net:[2]")
		})
		p := collect(t, c, stats.CollectOptions{Network: true})[0]
		require.Equal(t, []string{pod, pod + "/" + ids[0]}, []string{p.Cgroup, p.SandboxCgroup})
		require.EqualValues(t, 600, *p.Usage.Memory.Usage)
		require.Equal(t, pod+"/cri-containerd-"+ids[1]+".scope", p.Containers[0].Cgroup)
		require.EqualValues(t, 200, *p.Containers[0].Usage.Memory.Usage)
		require.EqualValues(t, 300, *p.Containers[1].Usage.Memory.Usage)
		require.EqualValues(t, 10, *p.Network.Find().Received.Bytes)
		require.Nil(t, p.NanoCores, "there is one reading")
		require.Nil(t, p.Details, "they were not requested")
		require.Nil(t, p.Containers[0].Details)
		require.Zero(t, s.calls["ListContainerStats"]+s.calls["ListPodSandboxStats"], "only lists were requested from the runtime")

		time.Sleep(2 * time.Second)
		cgroups(files, pod, map[string][2]string{"": {"600", "4000000"}, "/crio-" + ids[2] + ".scope": {"300", "1000000"}})
		p = collect(t, c, stats.CollectOptions{Storage: true, Details: true})[0]
		require.EqualValues(t, 500_000_000, *p.NanoCores)
		require.Nil(t, p.Containers[1].NanoCores, "its counter has run backwards, and its runtime's word is not of processors")
		require.EqualValues(t, 16<<10, *p.Containers[0].Writable.Used)
		require.NotNil(t, p.Containers[0].Details)
		require.Nil(t, p.Network)
		for range 5 {
			time.Sleep(time.Second)
			require.NotNil(t, collect(t, c, stats.CollectOptions{Storage: true})[0].Containers[0].Writable)
		}
		require.Equal(t, 1, s.calls["ListContainerStats"])
		time.Sleep(5*time.Second - 1)
		collect(t, c, stats.CollectOptions{Storage: true})
		require.Equal(t, 1, s.calls["ListContainerStats"])
		time.Sleep(time.Nanosecond)
		collect(t, c, stats.CollectOptions{Storage: true})
		require.Equal(t, 2, s.calls["ListContainerStats"])
	})
}

// A pod on the machine's network has no network of its own. If the pod's process ends meanwhile,
// the network is unavailable.
func TestNetworks(t *testing.T) {
	s := newScene(t)
	ids := s.pod("a", "x")
	files := fstest.MapFS{}
	cgroups(files, "/p", map[string][2]string{"": {"6", "3"}, "/" + ids[0]: {"1", "1"}, "/" + ids[1]: {"2", "1"}})
	network := func(proc fs.FS) *stats.Network {
		c := s.collector(func(cfg *stats.CollectorConfig) {
			onCgroups(t, cfg, files, map[string]string{"uid-a": "/p"})
			cfg.Proc = proc
		})
		return collect(t, c, stats.CollectOptions{Network: true})[0].Network
	}
	require.NotNil(t, network(proc("net:[2]")))
	require.Nil(t, network(proc("net:[1]")))
	require.NotNil(t, network(nil), "from the runtime")
	for _, link := range []string{"7/ns/net", "self/ns/net"} {
		gone := proc("net:[2]")
		delete(gone, link)
		require.Nil(t, network(gone), link)
	}
	delete(files, "p/"+ids[0]+"/cgroup.procs")
	require.NotNil(t, network(proc("net:[2]")), "then any process of the pod will do")
	files["p/"+ids[0]+"/cgroup.procs"] = &fstest.MapFile{}
	require.NotNil(t, network(proc("net:[2]")), "of a sandbox without processes, too")
	maps.DeleteFunc(files, func(name string, _ *fstest.MapFile) bool { return strings.Contains(name, ids[0]) })
	files["cgroup.procs"] = &fstest.MapFile{Data: []byte("9\n")}
	require.NotNil(t, network(proc("net:[2]")), "of a sandbox without a cgroup, too, and not of the machine")
}

// podsAlone lists pod statistics without containers.
type podsAlone struct{ *scene }

func (r podsAlone) ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	list, err := r.scene.ListPodSandboxStats(ctx, filter)
	for _, s := range list {
		s.Linux.Containers = nil
	}
	return list, err
}

// Containers without a cgroup, or outside of it, get the runtime's figures. Unreadable files are
// reported.
func TestCgroupsAndRuntime(t *testing.T) {
	const both, one = 16 << 20, 8 << 20 // from the runtime
	for _, test := range []struct {
		name    string
		memory  map[string]string // of the cgroups of the pod, its sandbox and its containers
		pod     uint64
		want    [2]uint64 // of its containers
		details [3]bool   // whether the pod and its containers have details
		unread  string
	}{
		{"no cgroup", nil, both, [2]uint64{one, one}, [3]bool{}, ""},
		{"the pod's alone", map[string]string{"pod": "0"}, both, [2]uint64{one, one}, [3]bool{}, ""},
		{"the first container's", map[string]string{"pod": "50", "x": "40"}, 50, [2]uint64{40, one}, [3]bool{true, true, false}, ""},
		{"the last container's", map[string]string{"pod": "50", "y": "40"}, 50, [2]uint64{one, 40}, [3]bool{true, false, true}, ""},
		{"the pod's is gone, not yet those in it", map[string]string{"sandbox": "1", "x": "2", "y": "3"}, both, [2]uint64{2, 3}, [3]bool{false, true, true}, ""},
		{"one ended after it was listed", map[string]string{"pod": "50", "x": "", "y": "40"}, 50, [2]uint64{one, 40}, [3]bool{true, false, true}, ""},
		{"half written", map[string]string{"pod": "50", "x": "half 1"}, 50, [2]uint64{one, one}, [3]bool{true, true, false}, "/memory.current"},
	} {
		for _, alone := range []bool{false, test.pod == 50} { // true lists containers separately
			s := newScene(t)
			s.pod("without", "z")
			ids, files := s.pod("a", "x", "y"), fstest.MapFS{}
			names := map[string]string{"pod": "", "sandbox": "/" + ids[0], "x": "/" + ids[1], "y": "/" + ids[2]}
			for of, memory := range test.memory {
				if memory == "" {
					files["p"+names[of]+"/cgroup.type"] = &fstest.MapFile{}
					continue
				}
				cgroups(files, "/p", map[string][2]string{names[of]: {memory, "5"}})
			}
			c := s.collector(func(cfg *stats.CollectorConfig) {
				onCgroups(t, cfg, files, map[string]string{"uid-a": "/p", "uid-b": "/gone"})
				if alone {
					cfg.Runtime = podsAlone{s}
				}
			})
			pods, unread, err := c.Collect(t.Context(), stats.CollectOptions{Details: test.unread == ""})
			require.NoError(t, err)
			if test.unread == "" {
				require.Empty(t, unread, test.name)
				require.Equal(t, test.details, [3]bool{pods[0].Details != nil, pods[0].Containers[0].Details != nil, pods[0].Containers[1].Details != nil}, test.name)
			} else {
				require.Len(t, unread, 1, test.name)
				require.ErrorContains(t, unread[0], test.unread)
			}
			require.EqualValues(t, test.pod, *pods[0].Usage.Memory.Usage, test.name)
			require.EqualValues(t, test.want[0], *pods[0].Containers[0].Usage.Memory.Usage, test.name)
			require.EqualValues(t, test.want[1], *pods[0].Containers[1].Usage.Memory.Usage, test.name)
			require.EqualValues(t, one, *pods[1].Usage.Memory.Usage, test.name)
		}
	}
	s := newScene(t)
	s.pod("c", "w")
	_, unread, err := s.collector(func(cfg *stats.CollectorConfig) {
		onCgroups(t, cfg, fstest.MapFS{"r": &fstest.MapFile{}}, map[string]string{"uid-c": "/r"})
	}).Collect(t.Context(), stats.CollectOptions{})
	require.NoError(t, err)
	require.ErrorContains(t, errors.Join(unread...), "r: not", "no folder")
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
		require.Equal(t, time.Unix(0, 2), pods[0].Created)
		var ids []string
		for _, c := range pods[0].Containers {
			ids = append(ids, c.ID)
		}
		require.Equal(t, []string{"5", "3"}, ids, "the newest of each name that runs, by name")
		slices.Reverse(sandboxes) // runtimes list them in no order
	}
	// Pods are in the order of namespace, name and UID.
	want := []string{"a/a/5", "a/b/3", "a/b/4", "b/a/1", "b/c/0", "c/a/2"}
	sandboxes, containers = nil, nil
	for _, i := range []int{5, 4, 2, 0, 1, 3} {
		names := strings.Split(want[i], "/")
		s := sandbox(want[i], names[2], 1, ready)
		s.Metadata.Namespace, s.Metadata.Name = names[0], names[1]
		sandboxes, containers = append(sandboxes, s), append(containers, container("c", s.Id, "c", 0, running))
	}
	var got []string
	for _, p := range stats.Running(sandboxes, containers) {
		got = append(got, p.Namespace+"/"+p.Name+"/"+p.UID)
	}
	require.Equal(t, want, got)
}

// Concurrent collections cause a single storage call.
func TestManyAtATime(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"b", "c"} {
		s.pod(name, "x")
	}
	c := s.inCgroup(func(*stats.CollectorConfig) {})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			pods := collect(t, c, stats.CollectOptions{Storage: true, Network: true})
			require.Len(t, pods, 3)
			require.NotNil(t, pods[0].Containers[0].Writable)
		})
	}
	wg.Wait()
	require.Equal(t, 1, s.calls["ListContainerStats"])
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := c.Collect(ended, stats.CollectOptions{})
	require.Error(t, err)
}

// inCgroup starts a pod with its container in the pod's cgroup, and returns a collector for it.
func (s *scene) inCgroup(change func(*stats.CollectorConfig)) *stats.Collector {
	ids, files := s.pod("a", "x"), fstest.MapFS{}
	cgroups(files, "/p", map[string][2]string{"": {"6", "3"}, "/" + ids[0]: {"1", "1"}, "/" + ids[1]: {"2", "1"}})
	return s.collector(func(cfg *stats.CollectorConfig) {
		onCgroups(s.t, cfg, files, map[string]string{"uid-a": "/p"})
		change(cfg)
	})
}

// A failed storage call is reported; an unimplemented one is not.
func TestStorageIsRefused(t *testing.T) {
	for _, test := range []struct {
		err  error
		told bool
	}{
		{errors.New("broken"), true},
		{status.Error(codes.Unimplemented, "no"), false},
	} {
		s := newScene(t)
		s.refuse["ListContainerStats"] = test.err
		pods, unread, err := s.inCgroup(func(*stats.CollectorConfig) {}).Collect(t.Context(), stats.CollectOptions{Storage: true})
		require.NoError(t, err)
		require.Nil(t, pods[0].Containers[0].Writable)
		require.EqualValues(t, 2, *pods[0].Containers[0].Usage.Memory.Usage)
		if test.told {
			require.Equal(t, []error{test.err}, unread)
		} else {
			require.Empty(t, unread)
		}
	}
}

// A process that ends while its network is read is no error; other failures are reported.
func TestProcessHasEnded(t *testing.T) {
	for _, name := range []string{"7/ns/net", "self/ns/net", "7/net/dev"} {
		for err, told := range map[error]bool{fs.ErrNotExist: false, syscall.ENODEV: false, syscall.ESRCH: false, syscall.EACCES: true} {
			s := newScene(t)
			c := s.inCgroup(func(cfg *stats.CollectorConfig) {
				cfg.Proc = stats.FailingFS{MapFS: proc("net:[2]"), Name: name, Err: err}
			})
			pods, unread, failed := c.Collect(t.Context(), stats.CollectOptions{Network: true})
			require.NoError(t, failed)
			require.Nil(t, pods[0].Network, name)
			if !told {
				require.Empty(t, unread, "%s: %v", name, err)
				continue
			}
			require.Len(t, unread, 1, "%s: %v", name, err)
			require.ErrorIs(t, unread[0], err)
		}
	}
}
