package agent

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	driver "github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/cgroups"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/csi"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/internal/testkit/testagent"
)

// world is a runtime and a node's folders, for agents that run in sequence. An agent finds
// the state that its predecessor left.
type world struct {
	*testagent.Node
	t       *testing.T
	dir     string
	runtime *fake.Runtime
	calls   *testagent.Runtime

	cgroups *cgroups.Memory

	desired     []*v1.Pod
	log         *slog.Logger
	api         *apitest.Server
	allocatable v1.ResourceList
	configure   func(*Config)
	// silent: the source of pods does not report.
	silent bool
	// connectAfter is the time from the agent's start to its connection to the runtime.
	connectAfter time.Duration
	// lacking: the runtime does not report its cgroup driver.
	lacking bool
	// ends is part of the agent's expected final error. "" expects no
	// such end.
	ends  string
	agent *node
	stop  func()
}

func inWorld(t *testing.T, cfg fake.Config, test func(*world)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n, rt := testagent.NewNode(t, cfg)
		w := &world{Node: n, t: t, dir: dir, runtime: rt, calls: testagent.NewRuntime(rt), cgroups: &cgroups.Memory{}}
		defer func() {
			if w.stop != nil {
				w.stop()
			}
			n.Close()
		}()
		test(w)
	})
}

func (w *world) logs() string  { return filepath.Join(w.dir, "logs") }
func (w *world) links() string { return filepath.Join(w.dir, "links") }

// configOf returns the configuration of an agent with all its files below dir, in root and logs.
func configOf(dir string, connect Connector) Config {
	cfg := Config{Config: config.Default(), Connect: connect}
	cfg.Flags.NodeName, cfg.Flags.RootDir = "n", filepath.Join(dir, "root")
	cfg.Kubelet.PodLogsDir = filepath.Join(dir, "logs")
	// The test must not depend on the free memory of the machine.
	cfg.Kubelet.EvictionHard = map[string]string{"memory.available": "1Mi"}
	return cfg
}

// start starts an agent. Its pods come from set.
func (w *world) start() {
	f := folders{root: filepath.Join(w.dir, "root")}
	require.NoError(w.t, f.prepare())
	cfg := configOf(w.dir, noRuntime)
	cfg.Flags.ContainerLogsDir = w.links()
	cfg.Cgroups = func(driver.Driver) (cgroups.Kernel, error) { return w.cgroups, nil }
	if cfg.Logger = w.log; w.log == nil && testing.Verbose() {
		cfg.Logger = slog.New(slog.NewTextHandler(w.t.Output(), nil))
	}
	if w.api != nil {
		cfg.Flags.Kubeconfig, cfg.DialAPI = w.api.Kubeconfig, w.api.Dial
		cfg.Flags.NodeIP = hostIPs(w.t)
	}
	if w.configure != nil {
		w.configure(&cfg)
	}
	cfg.watchDrivers = csi.NoWatch
	require.NoError(w.t, cfg.complete())
	runtime := &connected{err: errors.New("not connected yet")}
	in, err := newInputs(&cfg, runtime)
	require.NoError(w.t, err)
	if w.allocatable != nil {
		in.allocatable = func() v1.ResourceList { return w.allocatable }
	}
	n, err := newNode(w.t.Context(), in, &Connection{Runtime: w.calls, Images: w.runtime, Name: "fake", Version: "1", driver: "cgroupfs", hasNoDriver: w.lacking})
	require.NoError(w.t, err)
	w.agent = n
	connect := func(ctx context.Context) error {
		if w.connectAfter > 0 && !run.Sleep(ctx, w.connectAfter) {
			return nil
		}
		runtime.set(n, nil)
		return n.run(ctx)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- in.runWith(ctx, connect) }()
	if !w.silent {
		require.NoError(w.t, in.sources.merger.Set("file", w.desired, in.dirty.Emit))
	}
	w.stop = func() {
		if w.ends != "" {
			require.ErrorContains(w.t, <-done, w.ends)
		}
		cancel()
		if w.ends == "" {
			require.NoError(w.t, <-done)
		}
		w.stop = nil
	}
}

func (w *world) startFor(d time.Duration) {
	w.start()
	w.Sleep(d)
}

func (w *world) podCgroups() []string {
	return slices.DeleteFunc(w.cgroups.Paths(), func(path string) bool { return !strings.Contains(path, "/pod") })
}

func (w *world) set(pods ...*v1.Pod) {
	w.desired = pods
	if w.agent != nil {
		require.NoError(w.t, w.agent.in.sources.merger.Set("file", pods, w.agent.in.dirty.Emit))
	}
}

func (w *world) requireNothingLeft() {
	w.t.Helper()
	require.Empty(w.t, w.Containers(), "containers")
	require.Empty(w.t, w.Sandboxes(), "sandboxes")
	for _, dir := range []string{w.agent.in.folders.pods(), w.logs(), w.links()} {
		entries, err := os.ReadDir(dir)
		if !errors.Is(err, os.ErrNotExist) {
			require.NoError(w.t, err)
		}
		require.Empty(w.t, entries, dir)
	}
	require.Empty(w.t, w.podCgroups(), "cgroups")
	require.Empty(w.t, w.agent.syncer.Statuses().Pods(), "statuses")
	require.Empty(w.t, w.agent.syncer.Remembered(), "pods in memory")
	require.Empty(w.t, w.agent.users.Pods(), "users")
}

// podOf returns a pod. asking returns an exec probe with a period of one second and a failure
// threshold.
var podOf, asking = testagent.Pod, testagent.ExecProbe

// crash has the effect of kill -9 on the runtime's side.
func (w *world) crash() {
	w.stop()
	w.calls.Intercept(nil)
}

// everyDeath runs a test with an agent that dies at each of the first n calls, before or after the
// call's effect.
func everyDeath(t *testing.T, n int, test func(w *world, call int, before bool)) {
	for call := 1; call <= n; call++ {
		for _, before := range []bool{true, false} {
			inWorld(t, fake.Config{}, func(w *world) { test(w, call, before) })
		}
	}
}

// After a crash at any call of a pod's start: if the manifest still exists, one instance of each
// container runs in one sandbox, and no restart is counted; otherwise the pod is removed.
func TestCrashWhileStarting(t *testing.T) {
	for _, stays := range []bool{true, false} {
		everyDeath(t, 5, func(w *world, call int, before bool) {
			w.set(podOf("1", v1.RestartPolicyAlways, "a", "b"))
			died := w.calls.DieAt(call, before)
			w.start()
			<-died
			w.crash()
			if !stays {
				w.set()
			}
			w.startFor(2*time.Minute + time.Second)
			if !stays {
				w.requireNothingLeft()
				return
			}
			require.Equal(w.t, map[string][]uint32{"a": {0}, "b": {0}}, w.Running(), "call %d", call)
			require.Len(w.t, w.Containers(), 2)
			require.Len(w.t, w.Sandboxes(), 1)
			links, err := os.ReadDir(w.links())
			require.NoError(w.t, err)
			require.Len(w.t, links, 2)
		})
	}
}

// After a crash at any call of a pod's stop and removal, the pod is removed, or runs again if the
// manifest is back.
func TestCrashWhileRemoving(t *testing.T) {
	for _, back := range []bool{false, true} {
		everyDeath(t, 6, func(w *world, call int, before bool) {
			pod := podOf("1", v1.RestartPolicyAlways, "a", "b")
			w.set(pod)
			w.startFor(5 * time.Second)
			require.Len(w.t, w.Running(), 2)
			died := w.calls.DieAt(call, before)
			w.set()
			<-died
			w.crash()
			if back {
				w.set(pod)
			}
			w.startFor(2*time.Minute + time.Second)
			if !back {
				w.requireNothingLeft()
				return
			}
			running := w.Running()
			require.Equal(w.t, []string{"a", "b"}, slices.Sorted(maps.Keys(running)))
			require.Len(w.t, slices.Concat(slices.Collect(maps.Values(running))...), 2)
		})
	}
}

func noRuntime(context.Context) (*Connection, error) { return nil, errors.New("no runtime") }

// hostIPs returns an address of the host for the Node, so that no test resolves the host's name. A
// host with only loopback addresses cannot be a node.
func hostIPs(t testing.TB) []netip.Addr {
	t.Helper()
	ips := nodeIPs()
	if len(ips) == 0 {
		t.Skip("the host has no address for a node")
	}
	return []netip.Addr{netip.MustParseAddr(ips[0])}
}
