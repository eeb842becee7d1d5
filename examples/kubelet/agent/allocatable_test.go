package agent

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	driver "github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/allocatable"
	"github.com/podwright/podwright/examples/kubelet/config"
)

// N22: the cgroup of all pods is limited to the machine's capacity without the reserved part. A
// container without a limit sees the allocatable resources as its limit: capacity without
// reservations and without eviction thresholds. Volumes use the same figure.
func TestAllocatableOfPods(t *testing.T) {
	var told atomic.Value
	program := func(ctx context.Context, p *fake.Process) int {
		told.Store(p.Getenv("CPU") + " " + p.Getenv("MEMORY"))
		return fake.SleepUntilStopped(ctx, p)
	}
	inWorld(t, fake.Config{Programs: fake.Always(program)}, func(w *world) {
		w.configure = func(c *Config) {
			c.Kubelet.SystemReserved = map[string]string{"cpu": "250m", "memory": "64Mi", "pid": "100"}
			c.Kubelet.KubeReserved = map[string]string{"memory": "32Mi"}
		}
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		limit := func(name, of, divisor string) v1.EnvVar {
			ref := &v1.ResourceFieldSelector{Resource: "limits." + of, Divisor: resource.MustParse(divisor)}
			return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{ResourceFieldRef: ref}}
		}
		pod.Spec.Containers[0].Env = []v1.EnvVar{limit("CPU", "cpu", "1m"), limit("MEMORY", "memory", "1")}
		w.set(pod)
		w.startFor(3 * time.Second)
		node := w.agent.in.machine.node.Status.Capacity
		cpu, memory := 1000*node.Cpu().Value()-250, node.Memory().Value()-96<<20
		usable := memory - 1<<20 - hugePagesOf(node) // another test may have reserved huge pages
		v, ok := w.cgroups.Get("/kubepods")
		require.True(t, ok)
		require.Equal(t, memory, v.Memory)
		require.Equal(t, driver.Shares(cpu), v.Shares)
		require.Positive(t, v.Pids)
		require.Equal(t, fmt.Sprint(cpu, " ", usable), told.Load())
		forVolumes := w.agent.in.machine.forPods()
		require.Equal(t, cpu, forVolumes.Cpu().MilliValue())
		require.Equal(t, usable, forVolumes.Memory().Value())
	})
}

// N23: an agent with a missing reserved cgroup ends with an error that names the cgroup.
func TestReservedCgroupIsMissing(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		var log lockedBuffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		w.configure = func(c *Config) {
			c.Kubelet.SystemReserved = map[string]string{"memory": "64Mi"}
			c.Kubelet.EnforceNodeAllocatable = []string{"pods", "system-reserved"}
			c.Kubelet.SystemReservedCgroup = "/of-the-system"
		}
		w.ends = "systemReservedCgroup: /of-the-system: " + allocatable.ErrMissing.Error()
		w.start()
		w.stop()
		require.Equal(t, 1, log.count("reason="+allocatable.ReasonFailed))
		require.NotContains(t, w.cgroups.Paths(), "/of-the-system")

		w.ends = ""
		require.NoError(t, w.cgroups.Set(t.Context(), driver.Name{"of-the-system"}, driver.Values{}))
		w.startFor(3 * time.Second)
		v, _ := w.cgroups.Get("/of-the-system")
		require.EqualValues(t, 64<<20, v.Memory)
	})
}

// A29: the machine is prepared once, when the runtime is ready for the first time.
func TestPreparedOnce(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		var tuned atomic.Int32
		w.configure = func(c *Config) { c.Tune = func() error { tuned.Add(1); return nil } }
		ready := func(ok bool) {
			require.NoError(t, w.runtime.SetCondition(runtimeapi.RuntimeReady, ok, "Test", "as demanded"))
			w.Sleep(time.Minute)
		}
		ready(false)
		w.startFor(time.Minute)
		require.Zero(t, tuned.Load())
		v, _ := w.cgroups.Get("/kubepods")
		require.Zero(t, v.Memory)
		ready(true)
		require.EqualValues(t, 1, tuned.Load())
		v, _ = w.cgroups.Get("/kubepods")
		require.Positive(t, v.Memory)
		ready(false)
		ready(true)
		require.EqualValues(t, 1, tuned.Load())
	})
}

// Reservations beyond the capacity are an error, and so is LimitedSwap without support for swap
// limits.
func TestWrongReservations(t *testing.T) {
	cfg := Config{Config: config.Default()}
	cfg.Flags.RootDir = t.TempDir()
	_, err := newMachine(&cfg)
	require.NoError(t, err)
	for memory, want := range map[string]string{"9000Ti": "of memory exceed", "x": "systemReserved[memory]"} {
		cfg.Kubelet.SystemReserved = map[string]string{"memory": memory}
		_, err = newMachine(&cfg)
		require.ErrorContains(t, err, want)
	}
	cfg.Kubelet.SystemReserved = nil
	cfg.Flags.RootDir += "/none"
	_, err = newMachine(&cfg)
	require.ErrorIs(t, err, fs.ErrNotExist)

	require.NoError(t, checkSwap(config.NoSwap, driver.V1, false))
	require.NoError(t, checkSwap(config.LimitedSwap, driver.V2, true))
	require.ErrorContains(t, checkSwap(config.LimitedSwap, driver.V1, true), "needs cgroup v2")
	require.ErrorContains(t, checkSwap(config.LimitedSwap, driver.V2, false), "swap accounting")
}
