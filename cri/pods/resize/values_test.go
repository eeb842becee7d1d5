package resize

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/pleg/observed"
)

// A limit of 0 means no limit, which is more than any value.
func TestGrows(t *testing.T) {
	for name, values := range map[v1.ResourceName]func(int64) cgroups.Needs{
		v1.ResourceCPU:    func(n int64) cgroups.Needs { return cgroups.Needs{CPULimit: n, CPURequest: n} },
		v1.ResourceMemory: func(n int64) cgroups.Needs { return cgroups.Needs{MemoryLimit: n, MemoryRequest: n} },
	} {
		limit, request := valuesOf(name)
		for _, c := range []struct {
			from, to                 int64
			limitGrows, requestGrows bool
		}{{1, 2, true, true}, {2, 1, false, false}, {2, 2, false, false}, {0, 1, false, true}, {1, 0, true, false}, {0, 0, false, false}} {
			require.Equal(t, c.limitGrows, limit.grows(values(c.from), values(c.to)), "%s %v", name, c)
			require.Equal(t, c.requestGrows, request.grows(values(c.from), values(c.to)), "%s %v", name, c)
			require.Equal(t, c.from == c.to, limit.same(values(c.from), values(c.to)), "%s %v", name, c)
		}
	}
}

// C37: a runtime lacks a call if the code says so, or the text without a specific code.
func TestNotImplemented(t *testing.T) {
	const words = "UpdatePodSandboxResources is not implemented"
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{status.Error(codes.Unimplemented, "unknown method"), true},
		{status.Error(codes.Unknown, words), true},
		{errors.New(words), true},
		{status.Error(codes.Unknown, "disk full"), false},
		{status.Error(codes.Internal, words), false},
	} {
		require.Equal(t, c.want, notImplemented(c.err), "%v", c.err)
	}
}

// A removed limit keeps its value, and the given pod is not changed.
func TestWantedPod(t *testing.T) {
	now := &v1.Pod{Spec: v1.PodSpec{
		Resources:      new(needs(7, 7)),
		InitContainers: []v1.Container{{Resources: needs(3, 3)}},
		Containers:     []v1.Container{{Resources: needs(5, 5)}, {Resources: needs(6, 6)}},
	}}
	cpuOnly := needs(4, 4)
	delete(cpuOnly.Limits, v1.ResourceMemory)
	pod := &v1.Pod{Spec: v1.PodSpec{
		Resources:      new(cpuOnly),
		InitContainers: []v1.Container{{Resources: cpuOnly}},
		Containers:     []v1.Container{{Resources: cpuOnly}, {}},
	}}
	given := pod.DeepCopy()
	out := wantedPod(pod, now)
	require.Equal(t, given, pod)
	limits := func(cpu, memory int64) cgroups.Needs { return cgroups.Needs{CPULimit: cpu, MemoryLimit: memory << 20} }
	for want, got := range map[cgroups.Needs]v1.ResourceRequirements{
		limits(4, 7): *out.Spec.Resources, limits(4, 3): out.Spec.InitContainers[0].Resources,
		limits(4, 5): out.Spec.Containers[0].Resources, limits(6, 6): out.Spec.Containers[1].Resources,
	} {
		require.Equal(t, want, cgroups.Needs{CPULimit: got.Limits.Cpu().MilliValue(), MemoryLimit: got.Limits.Memory().Value()})
	}
}

// needs returns equal requests and limits, in millicores and MiB.
func needs(cpu, memory int64) v1.ResourceRequirements {
	list := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
	}
	return v1.ResourceRequirements{Requests: list, Limits: list}
}

// A reported limit is used only for a container that has its own limit.
func TestReported(t *testing.T) {
	value := func(v int64) *int64 { return &v }
	both := needs(5, 5)
	for name, c := range map[string]struct {
		spec        v1.ResourceRequirements
		runtime     *observed.Resources
		cpu, memory int64
	}{
		"nothing":             {both, nil, 5, 5},
		"nothing of limits":   {both, &observed.Resources{}, 5, 5},
		"both":                {both, &observed.Resources{MilliCPULimit: value(7), MemoryLimit: value(8 << 20)}, 7, 8},
		"one thousandth":      {both, &observed.Resources{MilliCPULimit: value(1)}, 1, 5},
		"no limit of the CPU": {both, &observed.Resources{MilliCPULimit: value(0)}, 5, 5},
		"the pod's":           {v1.ResourceRequirements{}, &observed.Resources{MilliCPULimit: value(7), MemoryLimit: value(8 << 20)}, 0, 0},
	} {
		before := c.spec.DeepCopy()
		got := reported(c.runtime, c.spec)
		require.Equal(t, c.cpu, got.Limits.Cpu().MilliValue(), name)
		require.Equal(t, c.memory<<20, got.Limits.Memory().Value(), name)
		require.Equal(t, before, &c.spec, name)
	}
}

// The current resources are the recorded ones, or else those reported for a running container, or
// else the spec's.
func TestActuatedPod(t *testing.T) {
	seven := int64(7)
	pod := &v1.Pod{Spec: v1.PodSpec{
		Resources:      new(needs(9, 9)),
		InitContainers: []v1.Container{{Name: "init", Resources: needs(5, 5)}},
		Containers:     []v1.Container{{Name: "recorded", Resources: needs(5, 5)}, {Name: "runs", Resources: needs(5, 5)}, {Name: "ended", Resources: needs(5, 5)}, {Name: "new", Resources: needs(5, 5)}},
	}}
	given := pod.DeepCopy()
	says := &observed.Resources{MilliCPULimit: &seven}
	seen := &observed.Pod{}
	for name, state := range map[string]observed.State{"init": observed.StateRunning, "recorded": observed.StateRunning, "runs": observed.StateRunning, "ended": observed.StateExited} {
		seen.Containers = append(seen.Containers, observed.Container{Name: name, State: state, Resources: says})
	}
	out := actuatedPod(pod, seen, actions.Actuated{Containers: map[string]v1.ResourceRequirements{"recorded": needs(3, 3)}})
	require.Equal(t, given, pod)
	got := map[string]int64{}
	for _, c := range append(out.Spec.InitContainers, out.Spec.Containers...) {
		got[c.Name] = c.Resources.Limits.Cpu().MilliValue()
	}
	require.Equal(t, map[string]int64{"init": 7, "recorded": 3, "runs": 7, "ended": 5, "new": 5}, got)
	require.Same(t, pod.Spec.Resources, out.Spec.Resources)
	recorded := new(needs(8, 8))
	require.Same(t, recorded, actuatedPod(pod, seen, actions.Actuated{Pod: recorded}).Spec.Resources)
}

// saves counts the writes to a store.
type saves struct {
	Store
	n int
}

func (s *saves) Save(uid types.UID, a actions.Actuated) error {
	s.n++
	return s.Store.Save(uid, a)
}

// There is no write for an unchanged record, or for a container without resources in a pod
// without any.
func TestNoteContainer(t *testing.T) {
	none, five := v1.ResourceRequirements{}, needs(5, 5)
	of := func(r v1.ResourceRequirements) map[string]v1.ResourceRequirements {
		return map[string]v1.ResourceRequirements{"c": r}
	}
	otherRequest := v1.ResourceRequirements{Requests: needs(5, 6).Requests, Limits: five.Limits}
	otherLimit := v1.ResourceRequirements{Requests: five.Requests, Limits: needs(5, 6).Limits}
	for name, c := range map[string]struct {
		recorded  map[string]v1.ResourceRequirements
		resources v1.ResourceRequirements
		pod       *v1.ResourceRequirements
		writes    int
	}{
		"new":                          {nil, five, nil, 1},
		"the same":                     {of(five), needs(5, 5), nil, 0},
		"another request":              {of(five), otherRequest, nil, 1},
		"another limit":                {of(five), otherLimit, nil, 1},
		"asks for nothing more":        {of(five), none, nil, 1},
		"asks for nothing":             {nil, none, nil, 0},
		"asks for nothing, its pod":    {nil, none, &five, 1},
		"the same nothing in that pod": {of(none), none, &five, 0},
	} {
		t.Run(name, func(t *testing.T) {
			store := &saves{Store: NewMemory()}
			r := &Record{store: store, uid: "1", actuated: actions.Actuated{Containers: c.recorded}}
			container := &v1.Container{Name: "c", Resources: c.resources}
			pod := &v1.Pod{Spec: v1.PodSpec{Resources: c.pod}}
			require.NoError(t, r.NoteContainer(pod, container))
			require.Equal(t, c.writes, store.n)
			require.NoError(t, r.NoteContainer(pod, container), "and once is enough")
			require.Equal(t, c.writes, store.n)
		})
	}
}
