package cgroups_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/cgroups"
	kubelet "github.com/podwright/podwright/examples/kubelet/cgroups"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/podworkers/stages/stagestest"
)

// The library keeps its connections to systemd until the process exits.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/godbus/dbus/v5.(*Conn).inWorker"),
		goleak.IgnoreAnyFunction("github.com/godbus/dbus/v5.newConn.func1"),
		goleak.IgnoreAnyFunction("github.com/coreos/go-systemd/v22/dbus.(*Conn).dispatch.func1"),
	)
}

func tree(t testing.TB, driver cgroups.Driver) *cgroups.Tree {
	tree, err := cgroups.NewTree(driver, "")
	require.NoError(t, err)
	return tree
}

func open(t testing.TB, k kubelet.Kernel, cfg kubelet.Config) *kubelet.Stage {
	cfg.Kernel = k
	if cfg.Tree == nil {
		cfg.Tree = tree(t, cgroups.Cgroupfs)
	}
	s, err := kubelet.New(cfg)
	require.NoError(t, err)
	require.NoError(t, s.Setup(t.Context()))
	return s
}

// podOf returns a pod with a CPU request of milli, and an equal limit if it is Guaranteed.
func podOf(uid types.UID, class v1.PodQOSClass, milli int64) *v1.Pod {
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI), v1.ResourceMemory: resource.MustParse("64Mi")}
	var r v1.ResourceRequirements
	switch class {
	case v1.PodQOSGuaranteed:
		r = v1.ResourceRequirements{Requests: list, Limits: list}
	case v1.PodQOSBurstable:
		r = v1.ResourceRequirements{Requests: list}
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Name: string(uid), Namespace: "ns"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Resources: r}}},
	}
}

func TestStageKeepsItsContract(t *testing.T) {
	stagestest.Run(t, func(t testing.TB) stagestest.Subject {
		memory := &kubelet.Memory{}
		at := tree(t, cgroups.Cgroupfs)
		return stagestest.Subject{
			Open: func() (stages.Stage, error) { return open(t, memory, kubelet.Config{}), nil },
			Holds: func(uid types.UID) bool {
				_, ok := memory.Get("/kubepods/besteffort/pod" + string(uid))
				return ok
			},
			Halfway: map[string]func(*v1.Pod) error{
				"made, without values": func(pod *v1.Pod) error { return memory.Set(t.Context(), at.Pod(pod), cgroups.Values{}) },
			},
		}
	})
}

func TestNew(t *testing.T) {
	_, err := kubelet.New(kubelet.Config{Tree: tree(t, cgroups.Cgroupfs)})
	require.EqualError(t, err, "cgroups: Config.Kernel is required")
	_, err = kubelet.New(kubelet.Config{Kernel: &kubelet.Memory{}})
	require.EqualError(t, err, "cgroups: Config.Tree is required")
}

// A pod's cgroup gets its values, and new ones only while it is empty or the pod is resized.
func TestValues(t *testing.T) {
	sets := 0
	memory := &kubelet.Memory{Fail: func(path, what string) error {
		if what == "set" && strings.Contains(path, "/podu") {
			sets++
		}
		return nil
	}}
	s := open(t, memory, kubelet.Config{Values: cgroups.Config{PodPids: 50}})
	require.Equal(t, []string{"/kubepods", "/kubepods/besteffort", "/kubepods/burstable"}, memory.Paths())

	for range 3 {
		require.NoError(t, s.Prepare(t.Context(), podOf("u", v1.PodQOSGuaranteed, 500)))
	}
	require.Equal(t, 1, sets)
	v, ok := memory.Get("/kubepods/podu")
	require.True(t, ok)
	require.True(t, v.Equal(cgroups.Values{Shares: 512, Quota: 50_000, Period: 100_000, Memory: 64 << 20, Pids: 50}), "%+v", v)

	require.NoError(t, s.Prepare(t.Context(), podOf("u", v1.PodQOSGuaranteed, 1000)))
	require.Equal(t, 2, sets)
	v, _ = memory.Get("/kubepods/podu")
	require.EqualValues(t, 100_000, v.Quota)

	container := cgroups.Name{"kubepods", "podu", "container"}
	require.NoError(t, memory.Set(t.Context(), container, cgroups.Values{}))
	require.NoError(t, s.Prepare(t.Context(), podOf("u", v1.PodQOSGuaranteed, 500)))
	require.NoError(t, open(t, memory, kubelet.Config{}).Prepare(t.Context(), podOf("u", v1.PodQOSGuaranteed, 250)), "by another agent")
	v, _ = memory.Get("/kubepods/podu")
	require.EqualValues(t, 100_000, v.Quota, "a container is in it")
	require.NoError(t, s.SetPodCgroup(t.Context(), podOf("u", v1.PodQOSGuaranteed, 1000), cgroups.Needs{CPURequest: 500, CPULimit: 2000, MemoryLimit: 1 << 20}))
	v, _ = memory.Get("/kubepods/podu")
	require.True(t, v.Equal(cgroups.Values{Shares: 512, Quota: 200_000, Period: 100_000, Memory: 1 << 20, Pids: 50}), "%+v", v)

	require.NoError(t, memory.Remove(t.Context(), container))
	require.NoError(t, open(t, memory, kubelet.Config{}).Prepare(t.Context(), podOf("u", v1.PodQOSGuaranteed, 250)))
	v, _ = memory.Get("/kubepods/podu")
	require.EqualValues(t, 25_000, v.Quota, "incomplete values of an earlier agent are corrected")

	require.NoError(t, memory.Remove(t.Context(), cgroups.Name{"kubepods", "podu"}), "by another program")
	require.NoError(t, s.Prepare(t.Context(), podOf("u", v1.PodQOSGuaranteed, 1000)))
	_, ok = memory.Get("/kubepods/podu")
	require.True(t, ok, "the cgroup is created again")
}

// The weight of the Burstable class is the sum of its pods' requests. A restarted agent leaves it
// unchanged until the first Update.
func TestWeight(t *testing.T) {
	memory := &kubelet.Memory{}
	weight := func() uint64 {
		v, _ := memory.Get("/kubepods/burstable")
		return v.Shares
	}
	a, b, c := podOf("a", v1.PodQOSBurstable, 500), podOf("b", v1.PodQOSBurstable, 250), podOf("c", v1.PodQOSGuaranteed, 1000)
	s := open(t, memory, kubelet.Config{})
	require.EqualValues(t, 2, weight())
	require.NoError(t, s.Update(t.Context(), nil))
	for _, pod := range []*v1.Pod{a, b, c} {
		require.NoError(t, s.Prepare(t.Context(), pod))
	}
	require.EqualValues(t, 768, weight())

	s = open(t, memory, kubelet.Config{})
	require.EqualValues(t, 768, weight(), "pods run in it")
	require.NoError(t, s.Prepare(t.Context(), a))
	require.EqualValues(t, 768, weight(), "one pod was observed")
	require.NoError(t, s.Update(t.Context(), []*v1.Pod{a, b, c}))
	require.EqualValues(t, 768, weight())
	require.NoError(t, s.Release(t.Context(), "a"))
	require.EqualValues(t, 256, weight())
	require.NoError(t, s.Update(t.Context(), []*v1.Pod{c}))
	require.EqualValues(t, 2, weight())
}

// An error names the cgroup, affects no other pod, and is retried by the next call.
func TestFailures(t *testing.T) {
	broken := errors.New("read-only file system")
	var at, what string
	memory := &kubelet.Memory{Fail: func(path, w string) error {
		if path == at && w == what {
			return broken
		}
		return nil
	}}
	s := open(t, memory, kubelet.Config{})
	require.NoError(t, s.Update(t.Context(), nil))
	pod := podOf("u", v1.PodQOSBurstable, 100)

	for _, try := range []struct{ at, what, says string }{
		{"/kubepods/burstable/podu", "set", "cgroups: /kubepods/burstable/podu: read-only"},
		{"/kubepods/burstable/podu", "look", "cgroups: read-only"},
	} {
		at, what = try.at, try.what
		err := s.Prepare(t.Context(), pod)
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, try.says)
		require.NoError(t, s.Prepare(t.Context(), podOf("other", v1.PodQOSGuaranteed, 100)))
		at = ""
		require.NoError(t, s.Prepare(t.Context(), pod))
		class, _ := memory.Get("/kubepods/burstable")
		require.EqualValues(t, 102, class.Shares)
		require.NoError(t, s.Release(t.Context(), "u"))
	}

	// A failure to set the class's weight does not fail the pod.
	at, what = "/kubepods/burstable", "set"
	require.NoError(t, s.Prepare(t.Context(), pod))
	require.ErrorIs(t, s.Update(t.Context(), []*v1.Pod{pod}), broken)
	at = ""
	require.NoError(t, s.Update(t.Context(), []*v1.Pod{pod}))
	class, _ := memory.Get("/kubepods/burstable")
	require.EqualValues(t, 102, class.Shares)

	at, what = "/kubepods/burstable/podu", "remove"
	require.ErrorIs(t, s.Release(t.Context(), "u"), broken)
	at, what = "/kubepods", "list"
	_, err := s.Leftovers(t.Context())
	require.ErrorIs(t, err, broken)
	at = ""
	left, err := s.Leftovers(t.Context())
	require.NoError(t, err)
	slices.Sort(left)
	require.Equal(t, []types.UID{"other", "u"}, left)

	for _, what := range []string{"/kubepods", "/kubepods/besteffort"} {
		memory := &kubelet.Memory{Fail: func(path, w string) error {
			if path == what && w == "set" {
				return broken
			}
			return nil
		}}
		s, err := kubelet.New(kubelet.Config{Kernel: memory, Tree: tree(t, cgroups.Cgroupfs)})
		require.NoError(t, err)
		require.ErrorIs(t, s.Setup(t.Context()), broken)
	}
}

// Cgroups of another agent on the same machine are not removed.
func TestForeignCgroupsStay(t *testing.T) {
	memory := &kubelet.Memory{}
	for _, uid := range []types.UID{"mine", "theirs"} {
		require.NoError(t, open(t, memory, kubelet.Config{}).Prepare(t.Context(), podOf(uid, v1.PodQOSGuaranteed, 100)))
	}
	left, err := open(t, memory, kubelet.Config{Ours: func(uid types.UID) bool { return uid == "mine" }}).Leftovers(t.Context())
	require.NoError(t, err)
	require.Equal(t, []types.UID{"mine"}, left)
}

// A runtime that continues a cancelled sandbox start creates a removed cgroup again. The Stage
// removes it although no other record of the pod remains.
func TestReappearingCgroupIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, pod := &kubelet.Memory{}, podOf("late", v1.PodQOSGuaranteed, 100)
		s := open(t, memory, kubelet.Config{Ours: func(types.UID) bool { return false }})
		left := func() []types.UID {
			uids, err := s.Leftovers(t.Context())
			require.NoError(t, err)
			return uids
		}
		require.NoError(t, s.Prepare(t.Context(), pod))
		require.NoError(t, s.Release(t.Context(), "late"))
		require.Empty(t, left())
		require.NoError(t, open(t, memory, kubelet.Config{}).Prepare(t.Context(), pod)) // by the runtime
		require.Equal(t, []types.UID{"late"}, left())
		require.NoError(t, s.Release(t.Context(), "late"))
		require.Empty(t, left())
		require.NoError(t, open(t, memory, kubelet.Config{}).Prepare(t.Context(), pod))
		time.Sleep(time.Hour)
		require.Empty(t, left(), "it belongs to another agent by now")
	})
}

func TestParentAndUsage(t *testing.T) {
	pod, memory := podOf("1-2", v1.PodQOSBurstable, 100), &kubelet.Memory{Usage: 4096}
	s := open(t, memory, kubelet.Config{Tree: tree(t, cgroups.Systemd)})
	require.Equal(t, "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice", s.Parent(pod))
	used, err := s.PodMemoryUsage(t.Context(), pod)
	require.NoError(t, err)
	require.EqualValues(t, 4096, used)
}
