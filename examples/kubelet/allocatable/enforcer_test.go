package allocatable_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/examples/kubelet/allocatable"
	kernel "github.com/podwright/podwright/examples/kubelet/cgroups"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// scene is an Enforcer with the events that it has emitted.
type scene struct {
	*allocatable.Enforcer
	kernel *kernel.Memory
	events []string
}

func open(t *testing.T, cfg allocatable.Config) *scene {
	t.Helper()
	s := &scene{kernel: &kernel.Memory{}}
	tree, err := cgroups.NewTree(cgroups.Cgroupfs, "")
	require.NoError(t, err)
	cfg.Kernel, cfg.Tree = s.kernel, tree
	if cfg.Capacity == nil {
		cfg.Capacity = list("cpu", "4", "memory", "8Gi", "pid", "32768", "hugepages-2Mi", "1Gi", "ephemeral-storage", "100Gi")
	}
	cfg.Event = func(kind, reason, message string) { s.events = append(s.events, kind+" "+reason+" "+message) }
	s.Enforcer, err = allocatable.New(cfg)
	require.NoError(t, err)
	return s
}

// N22: all pods together get the capacity minus the enforced reservations. Hard eviction thresholds
// affect only the status of the Node.
func TestValues(t *testing.T) {
	huge := map[string]int64{"2MB": 1 << 30}
	all := cgroups.Values{Shares: 4096, Memory: 8 << 30, Pids: 32768, HugePages: huge}
	for name, c := range map[string]struct {
		system, kube v1.ResourceList
		enforce      []string
		want         cgroups.Values
	}{
		"nothing":      {enforce: []string{"pods"}, want: all},
		"N22":          {system: list("memory", "1Gi"), enforce: []string{"pods"}, want: cgroups.Values{Shares: 4096, Memory: 7 << 30, Pids: 32768, HugePages: huge}},
		"both":         {list("cpu", "500m", "pid", "1000", "ephemeral-storage", "1Gi"), list("cpu", "500m", "memory", "1Gi"), []string{"pods"}, cgroups.Values{Shares: 3072, Memory: 7 << 30, Pids: 31768, HugePages: huge}},
		"all of it":    {kube: list("cpu", "4"), enforce: []string{"pods"}, want: cgroups.Values{Shares: 2, Memory: 8 << 30, Pids: 32768, HugePages: huge}},
		"none":         {system: list("memory", "1Gi"), enforce: []string{"none"}, want: all},
		"not the pods": {system: list("memory", "1Gi"), want: all},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, allocatable.Config{System: c.system, Kube: c.kube, Keys: allocatable.Keys{Enforce: c.enforce}})
			require.NoError(t, s.Enforce(t.Context()))
			require.NoError(t, s.Reserve(t.Context()))
			got, ok := s.kernel.Get("/kubepods")
			require.True(t, ok)
			require.True(t, c.want.Equal(got), "%+v", got)
			require.Equal(t, []string{"/kubepods"}, s.kernel.Paths())
		})
	}
}

// N23: a failed update is reported and retried each minute. It does not stop the agent.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, allocatable.Config{System: list("memory", "1Gi"), Keys: allocatable.Keys{Enforce: []string{"pods"}}})
		var works atomic.Bool
		s.kernel.Fail = func(string, string) error {
			if works.Load() {
				return nil
			}
			return errors.New("device or resource busy")
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		failed := "Warning FailedNodeAllocatableEnforcement Failed to update Node Allocatable Limits \"/kubepods\": device or resource busy"
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		require.Equal(t, []string{failed, failed, failed}, s.events)
		require.Empty(t, s.kernel.Paths())
		works.Store(true)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"Normal NodeAllocatableEnforced Updated Node Allocatable limit across pods"}, s.events[3:], "once")
		v, _ := s.kernel.Get("/kubepods")
		require.EqualValues(t, 7<<30, v.Memory)

		// A removed cgroup is created again.
		require.NoError(t, s.kernel.Remove(ctx, cgroups.Name{"kubepods"}))
		time.Sleep(time.Minute)
		synctest.Wait()
		v, _ = s.kernel.Get("/kubepods")
		require.EqualValues(t, 7<<30, v.Memory)
		stop()
		require.NoError(t, <-ended)
	})
}

// N23: a reserved cgroup must exist.
func TestReserved(t *testing.T) {
	cfg := allocatable.Config{
		System: list("cpu", "1", "memory", "1Gi", "pid", "500"), Kube: list("cpu", "500m", "memory", "512Mi"),
		Keys: allocatable.Keys{Enforce: []string{"pods", "system-reserved", "kube-reserved-compressible"}, SystemCgroup: "/system", KubeCgroup: "kube/agent"},
	}
	s := open(t, cfg)
	require.ErrorIs(t, s.Reserve(t.Context()), allocatable.ErrMissing)
	require.Equal(t, []string{"Warning FailedNodeAllocatableEnforcement Failed to enforce System Reserved Cgroup Limits on \"/system\": " + allocatable.ErrMissing.Error()}, s.events)
	require.NoError(t, s.kernel.Set(t.Context(), cgroups.Name{"system"}, cgroups.Values{}))
	err := s.Reserve(t.Context())
	require.ErrorIs(t, err, allocatable.ErrMissing)
	require.ErrorContains(t, err, "kubeReservedCgroup: kube/agent")
	require.NoError(t, s.kernel.Set(t.Context(), cgroups.Name{"kube", "agent"}, cgroups.Values{}))
	require.NoError(t, s.Reserve(t.Context()))
	system, _ := s.kernel.Get("/system")
	require.True(t, cgroups.Values{Shares: 1024, Memory: 1 << 30, Pids: 500}.Equal(system), "%+v", system)
	kube, _ := s.kernel.Get("/kube/agent")
	require.True(t, cgroups.Values{Shares: 512}.Equal(kube), "only values that slow down: %+v", kube)

	s.kernel.Fail = func(_, what string) error { return map[string]error{"set": errors.New("read-only")}[what] }
	require.ErrorContains(t, s.Reserve(t.Context()), "systemReservedCgroup: /system: read-only")
	s.kernel.Fail = func(_, what string) error { return map[string]error{"look": errors.New("no look")}[what] }
	require.ErrorContains(t, s.Reserve(t.Context()), "no look")
	cfg.Keys.SystemCgroup = "/a/./b"
	require.ErrorIs(t, open(t, cfg).Reserve(t.Context()), allocatable.ErrMissing, "cleaned")
}

// Names of reserved cgroups are in the driver's notation.
func TestReservedOfSystemd(t *testing.T) {
	tree, err := cgroups.NewTree(cgroups.Systemd, "")
	require.NoError(t, err)
	memory := &kernel.Memory{}
	require.NoError(t, memory.Set(t.Context(), cgroups.Name{"system"}, cgroups.Values{}))
	cfg := allocatable.Config{
		Kernel: memory, Tree: tree, Capacity: list("cpu", "1"), System: list("cpu", "100m"),
		Keys: allocatable.Keys{Enforce: []string{"system-reserved"}, SystemCgroup: "/system.slice"},
	}
	e, err := allocatable.New(cfg)
	require.NoError(t, err)
	require.NoError(t, e.Reserve(t.Context()))
	v, _ := memory.Get("/system")
	require.EqualValues(t, 102, v.Shares)
	cfg.Keys.SystemCgroup = "/system"
	e, err = allocatable.New(cfg)
	require.NoError(t, err)
	require.ErrorIs(t, e.Reserve(t.Context()), cgroups.ErrName)
}

func TestWrongConfig(t *testing.T) {
	tree, err := cgroups.NewTree(cgroups.Cgroupfs, "")
	require.NoError(t, err)
	_, err = allocatable.New(allocatable.Config{})
	for _, field := range []string{"Kernel", "Tree", "Capacity"} {
		require.ErrorContains(t, err, "allocatable: Config."+field+" is required")
	}
	good := allocatable.Config{Kernel: &kernel.Memory{}, Tree: tree, Capacity: list("memory", "8Gi")}
	cfg := good
	cfg.System, cfg.Kube = list("memory", "5Gi"), list("memory", "4Gi")
	_, err = allocatable.New(cfg)
	require.ErrorContains(t, err, "the reservations of memory exceed the node's capacity of 8Gi")
	for want, keys := range map[string]allocatable.Keys{
		`"bogus" must be one of pods`:                        {Enforce: []string{"bogus"}},
		"system-reserved needs systemReservedCgroup":         {Enforce: []string{"system-reserved"}},
		"kube-reserved-compressible needs kubeReservedCgrou": {Enforce: []string{"kube-reserved-compressible"}},
		"none must be the only value":                        {Enforce: []string{"pods", "none"}},
		"kube-reserved and kube-reserved-compressible":       {Enforce: []string{"kube-reserved", "kube-reserved-compressible"}, KubeCgroup: "/k"},
		"system-reserved and system-reserved-compressible":   {Enforce: []string{"system-reserved", "system-reserved-compressible"}, SystemCgroup: "/s"},
	} {
		cfg := good
		cfg.Keys = keys
		_, err := allocatable.New(cfg)
		require.ErrorContains(t, err, want)
	}
}
