package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	driver "github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/cgroups"
)

func withCPU(pod *v1.Pod, milli int64) *v1.Pod {
	out := pod.DeepCopy()
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}
	out.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
	return out
}

// A running pod has a cgroup with its values. The weight of a QoS class counts the requests of
// running and starting pods, not those of terminated or rejected ones.
func TestPodCgroups(t *testing.T) {
	programs := fake.ByContainer(map[string]fake.Program{"done": fake.Exit(0)}, fake.SleepUntilStopped)
	inWorld(t, fake.Config{Programs: programs}, func(w *world) {
		w.node("2")
		values := func(path string) driver.Values {
			v, ok := w.cgroups.Get(path)
			require.True(t, ok, path)
			return v
		}
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		w.set(withCPU(pod, 250), podOf("2", v1.RestartPolicyAlways, "b"), withCPU(podOf("3", v1.RestartPolicyNever, "done"), 500), withCPU(podOf("4", v1.RestartPolicyAlways, "large"), 4000))
		w.startFor(2 * time.Minute)
		require.Equal(t, map[string][]uint32{"a": {0}, "b": {0}}, w.Running())
		require.Equal(t, v1.PodSucceeded, w.agent.syncer.Statuses().Get("3").Phase)
		require.Equal(t, v1.PodFailed, w.agent.syncer.Statuses().Get("4").Phase)
		require.Equal(t, []string{"/kubepods/besteffort/pod2", "/kubepods/burstable/pod1"}, w.podCgroups())
		require.EqualValues(t, 25_000, values("/kubepods/burstable/pod1").Quota)
		require.EqualValues(t, 256, values("/kubepods/burstable").Shares)

		// Removed cgroups are created again, at the class level within a minute.
		require.NoError(t, w.cgroups.Remove(w.t.Context(), driver.Name{"kubepods", "besteffort"}))
		w.Sleep(time.Minute)
		require.EqualValues(t, 2, values("/kubepods/besteffort").Shares)

		w.set(withCPU(pod, 500))
		w.Sleep(5 * time.Second)
		require.EqualValues(t, 50_000, values("/kubepods/burstable/pod1").Quota, "resized in place")
		require.Equal(t, []uint32{0}, w.Running()["a"])
		require.Equal(t, []string{"/kubepods/burstable/pod1"}, w.podCgroups())
		w.set()
		w.Sleep(time.Minute)
		w.requireNothingLeft()
	})
}

// countedRuntime is a runtime that counts requests for its cgroup driver.
type countedRuntime struct {
	*fake.Runtime
	mu      sync.Mutex
	calls   int
	respond func(call int) (*runtimeapi.RuntimeConfigResponse, error)
}

func (a *countedRuntime) RuntimeConfig(context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	return a.respond(a.calls)
}

// The runtime's driver overrides the configured one (A9) and is requested once (A12). A runtime
// that does not implement the request leaves the configured driver (A10). A runtime that does not
// respond counts as unavailable: pods are left alone, and the request is retried (A11). An unknown
// driver ends the agent, because retries cannot help.
func TestCgroupDriver(t *testing.T) {
	says := func(d runtimeapi.CgroupDriver, fails error, times int) func(int) (*runtimeapi.RuntimeConfigResponse, error) {
		return func(call int) (*runtimeapi.RuntimeConfigResponse, error) {
			if call <= times {
				return nil, fails
			}
			return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: d}}, nil
		}
	}
	for name, c := range map[string]struct {
		answer func(call int) (*runtimeapi.RuntimeConfigResponse, error)
		calls  int
		closed int // connections closed as unusable
		waits  time.Duration
		want   driver.Driver
	}{
		"systemd":              {answer: says(runtimeapi.CgroupDriver_SYSTEMD, nil, 0), calls: 1, want: driver.Systemd},
		"pods have no cgroups": {answer: says(runtimeapi.CgroupDriver_SYSTEMD, nil, 0), calls: 1, want: driver.Systemd},
		"lacking":              {answer: says(0, status.Error(codes.Unimplemented, "unknown method"), 1), calls: 1, want: driver.Cgroupfs},
		"not for 6 s":          {answer: says(runtimeapi.CgroupDriver_CGROUPFS, status.Error(codes.Unavailable, "busy"), 3), calls: 4, closed: 1, waits: 4100 * time.Millisecond, want: driver.Cgroupfs},
		"unknown":              {answer: says(7, nil, 0), calls: 1, closed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				rt, err := fake.New(fake.Config{AnyImage: true})
				require.NoError(t, err)
				runtime := &countedRuntime{Runtime: rt, respond: c.answer}
				closed := 0
				cfg := configOf(dir, func(context.Context) (*Connection, error) {
					return &Connection{Runtime: runtime, Images: rt, Name: "fake", Close: func() error { closed++; return nil }}, nil
				})
				cfg.Kubelet.CgroupsPerQOS = new(name != "pods have no cgroups")
				cfg.Cgroups = func(driver.Driver) (cgroups.Kernel, error) { return &cgroups.Memory{}, nil }
				a, err := New(cfg)
				require.NoError(t, err)
				require.NoError(t, a.folders.prepare())
				in, err := newInputs(&a.cfg, &a.connected)
				require.NoError(t, err)
				begin := time.Now()
				conn, err := a.connect(t.Context(), in.sources)
				require.Equal(t, c.waits, time.Since(begin))
				require.Equal(t, c.calls, runtime.calls)
				require.Equal(t, c.closed, closed)
				require.NoError(t, rt.Close())
				if c.want == "" {
					require.ErrorIs(t, err, cri.ErrUnknownCgroupDriver)
					require.ErrorContains(t, err, ": 7")
					require.ErrorIs(t, a.runPods(t.Context(), in), cri.ErrUnknownCgroupDriver)
					return
				}
				require.NoError(t, err)
				require.Equal(t, string(c.want), conn.driver)
				require.Equal(t, name == "lacking", conn.hasNoDriver)
				a.connected.set(&node{conn: conn}, nil)
				require.Equal(t, string(c.want), a.effective().CgroupDriver)
				require.Equal(t, "cgroupfs", a.cfg.Kubelet.CgroupDriver)
			})
		})
	}
}

// A36: an event about the Node reports cgroup v1, whether or not pods have cgroups of their own.
func TestCgroupV1IsReported(t *testing.T) {
	for _, perQOS := range []bool{true, false} {
		for version, want := range map[driver.Version]int{driver.V1: 1, driver.V2: 0} {
			inWorld(t, fake.Config{}, func(w *world) {
				var log lockedBuffer
				w.log = slog.New(slog.NewTextHandler(&log, nil))
				w.cgroups.Hierarchy = version
				w.configure = func(c *Config) { c.Kubelet.CgroupsPerQOS = &perQOS }
				w.startFor(time.Second)
				require.Equal(w.t, want, log.count("reason=CgroupV1"), "version %d, cgroups of pods: %t", version, perQOS)
			})
		}
	}
}

// kernelWithoutPids is a machine without the controller pids.
type kernelWithoutPids struct{ *cgroups.Memory }

func (kernelWithoutPids) Missing() []string { return []string{"controller pids is not available"} }

// A missing optional controller is logged, and does not end the agent.
func TestMissingControllerIsLogged(t *testing.T) {
	a, err := New(configOf(t.TempDir(), noRuntime))
	require.NoError(t, err)
	var log lockedBuffer
	a.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	a.cfg.Cgroups = func(driver.Driver) (cgroups.Kernel, error) { return kernelWithoutPids{&cgroups.Memory{}}, nil }
	_, err = newCgroups(t.Context(), &a.cfg, "cgroupfs", a.folders, recorder{})
	require.NoError(t, err)
	require.Equal(t, 1, log.count(`level=WARN msg="cgroups: controller pids is not available"`))
}

// Without cgroups the agent does not request the driver. With cgroups, a root that the driver
// cannot name is an error.
func TestNoCgroups(t *testing.T) {
	a, err := New(configOf(t.TempDir(), noRuntime))
	require.NoError(t, err)
	conn := &Connection{}
	require.NoError(t, a.detectDriver(t.Context(), conn))
	require.Empty(t, conn.driver)
	cfg := a.cfg
	open := func() (*podCgroups, error) {
		return newCgroups(t.Context(), &cfg, conn.driver, a.folders, recorder{})
	}
	requireNone := func() {
		none, err := open()
		require.NoError(t, err)
		require.Nil(t, none)
		require.Empty(t, none.entries())
		require.Nil(t, none.parent())
		require.Nil(t, none.resizes())
	}
	requireNone()
	cfg.Cgroups = func(driver.Driver) (cgroups.Kernel, error) { return &cgroups.Memory{}, nil }
	cfg.Kubelet.CgroupRoot, conn.driver = "/a_b", "systemd"
	_, err = open()
	require.ErrorContains(t, err, "cgroupRoot: cgroups: root \"/a_b\"")
	cfg.Cgroups = func(driver.Driver) (cgroups.Kernel, error) { return nil, errors.New("no controller") }
	_, err = open()
	require.ErrorContains(t, err, "no controller")
	cfg.Kubelet.CgroupsPerQOS = new(false)
	requireNone()
}
