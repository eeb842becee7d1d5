package actions

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
)

// res returns resources from "cpu request", "cpu limit", "memory request" and "memory limit". ""
// means unset.
func res(values ...string) v1.ResourceRequirements {
	r := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	for i, v := range values {
		if v == "" {
			continue
		}
		list, name := r.Requests, v1.ResourceCPU
		if i%2 == 1 {
			list = r.Limits
		}
		if i >= 2 {
			name = v1.ResourceMemory
		}
		list[name] = resource.MustParse(v)
	}
	return r
}

func restartOn(names ...v1.ResourceName) []v1.ContainerResizePolicy {
	out := []v1.ContainerResizePolicy{{ResourceName: "other", RestartPolicy: v1.RestartContainer}}
	for _, name := range names {
		out = append(out, v1.ContainerResizePolicy{ResourceName: name, RestartPolicy: v1.RestartContainer})
	}
	return out
}

// TestResize covers one container (section 4.7): the updated resources and the restarts.
func TestResize(t *testing.T) {
	const cpu, memory = v1.ResourceCPU, v1.ResourceMemory
	base := res("100m", "200m", "64Mi", "128Mi")
	reported := func(cpuLimit, cpuRequest, memoryLimit int64) *observed.Resources {
		return &observed.Resources{MilliCPULimit: &cpuLimit, MilliCPURequest: &cpuRequest, MemoryLimit: &memoryLimit}
	}
	for _, tc := range []struct {
		name     string
		want     v1.ResourceRequirements
		have     *v1.ResourceRequirements
		policy   []v1.ContainerResizePolicy
		reported *observed.Resources
		memory   bool
		cpu      bool
		restart  bool
	}{
		{name: "same", want: base, have: &base},
		{name: "same in other words", want: res("0.1", "0.2", "65536Ki", "134217728"), have: &base},
		{name: "cpu request", want: res("150m", "200m", "64Mi", "128Mi"), have: &base, cpu: true},
		{name: "cpu limit", want: res("100m", "300m", "64Mi", "128Mi"), have: &base, cpu: true},
		{name: "C35 memory request only (#125559)", want: res("100m", "200m", "96Mi", "128Mi"), have: &base, memory: true},
		{name: "memory limit", want: res("100m", "200m", "64Mi", "256Mi"), have: &base, memory: true},
		{name: "both", want: res("50m", "100m", "32Mi", "64Mi"), have: &base, cpu: true, memory: true},
		{name: "a new limit", want: res("100m", "200m", "64Mi", "128Mi"), have: new(res("100m", "", "64Mi", "")), cpu: true, memory: true},
		{name: "a limit cannot be taken away", want: res("100m", "", "64Mi", ""), have: &base},
		{name: "a request can", want: res("", "200m", "", "128Mi"), have: &base, cpu: true, memory: true},
		{name: "cpu restarts", want: res("100m", "300m", "64Mi", "128Mi"), have: &base, policy: restartOn(cpu), restart: true},
		{name: "cpu would restart, memory changes", want: res("100m", "200m", "64Mi", "256Mi"), have: &base, policy: restartOn(cpu), memory: true},
		{name: "memory restarts", want: res("100m", "200m", "96Mi", "128Mi"), have: &base, policy: restartOn(memory), restart: true},
		{name: "memory restarts, and cpu changes", want: res("1", "2", "96Mi", "128Mi"), have: &base, policy: restartOn(memory), restart: true},
		{name: "not required", want: res("1", "2", "96Mi", "128Mi"), have: &base, policy: []v1.ContainerResizePolicy{{ResourceName: cpu, RestartPolicy: v1.NotRequired}}, cpu: true, memory: true},
		{name: "no record: sent again", want: base, cpu: true, memory: true},
		{name: "no record, nothing wanted", want: res()},
		{name: "no record, nothing wanted, the runtime's values do not count", want: res(), policy: restartOn(cpu, memory), reported: reported(300, 50, 1<<20)},
		{name: "no record: does not restart", want: base, policy: restartOn(cpu, memory), cpu: true, memory: true},
		{name: "no record, the runtime has the same", want: base, policy: restartOn(cpu, memory), reported: reported(200, 100, 128<<20), cpu: true, memory: true},
		{name: "no record, the runtime has what is left of 1m", want: res("1m", "1m", "", ""), policy: restartOn(cpu), reported: reported(10, 2, 0), cpu: true},
		{name: "no record, the runtime made a request of the limit", want: res("", "200m", "", ""), policy: restartOn(cpu), reported: reported(200, 200, 0), cpu: true},
		{name: "no record, the runtime has another cpu limit", want: base, policy: restartOn(cpu), reported: reported(300, 100, 128<<20), restart: true},
		{name: "no record, the runtime has another cpu request", want: base, policy: restartOn(cpu), reported: reported(200, 50, 128<<20), restart: true},
		{name: "no record, the runtime has another memory limit", want: base, policy: restartOn(memory), reported: reported(200, 100, 64<<20), restart: true},
		{name: "no record, the runtime has none", want: base, policy: restartOn(cpu, memory), reported: reported(0, 0, 0), cpu: true, memory: true},
		{name: "no record, the runtime reports only the limit", want: base, policy: restartOn(cpu), reported: &observed.Resources{MilliCPULimit: new(int64(300))}, restart: true},
		{name: "no record, the runtime reports only the request", want: base, policy: restartOn(cpu), reported: &observed.Resources{MilliCPURequest: new(int64(50))}, restart: true},
		{name: "a record counts more than a report", want: base, have: &base, policy: restartOn(cpu), reported: reported(300, 50, 0)},
	} {
		for _, name := range []string{"a", "s", "i"} {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				pod := testPod(always, "s", "a")
				containers := list(running("a"), running("s"))
				if name == "i" {
					pod, containers = testPod(always, "i", "a"), list(running("i"))
				}
				c := podfacts.Container(pod, name)
				c.Resources, c.ResizePolicy = tc.want, tc.policy
				status := observedPod(ready(), containers...)
				for i := range status.Containers {
					if status.Containers[i].Name == name {
						status.Containers[i].Resources = tc.reported
					}
				}
				actuated := &Actuated{Containers: map[string]v1.ResourceRequirements{}}
				if tc.have != nil {
					actuated.Containers[name] = *tc.have
				}
				a := decide(t, Input{Pod: pod, Status: status, Actuated: actuated})
				require.Equal(t, tc.memory, len(a.UpdateMemory) == 1)
				require.Equal(t, tc.cpu, len(a.UpdateCPU) == 1)
				require.Equal(t, tc.restart, a.UpdatePodResources)
				require.Equal(t, tc.restart, a.Starts())
				require.Equal(t, tc.memory || tc.cpu || tc.restart, a.Resizes())
				if tc.restart {
					require.Equal(t, []string{name + "-running "}, kills(a))
					require.Equal(t, "Container "+name+" resize requires restart, will be restarted", a.Kill[0].Message)
				}
				for _, u := range append(a.UpdateMemory, a.UpdateCPU...) {
					require.Equal(t, Update{ID: u.ID, Name: name, Init: name != "a", Want: u.Want, Have: u.Have}, u)
				}
			})
		}
	}
}

// C36: decreases come first, by limit, or by request if the limit is equal.
func TestResizeOrder(t *testing.T) {
	pod := testPod(always, "s", "a", "b", "c")
	have, want := map[string]v1.ResourceRequirements{}, map[string]v1.ResourceRequirements{
		"s": res("100m", "100m", "2Mi", "4Mi"), // cpu grows, memory shrinks
		"a": res("80m", "50m", "2Mi", "9Mi"),   // cpu shrinks by limit, memory grows
		"b": res("40m", "60m", "1Mi", "8Mi"),   // both shrink by request
		"c": res("60m", "60m", "2Mi", "8Mi"),   // cpu grows by request
	}
	for name, r := range want {
		have[name] = res("50m", "60m", "2Mi", "8Mi")
		podfacts.Container(pod, name).Resources = r
	}
	a := decide(t, Input{Pod: pod, Status: observedPod(ready(), running("c"), running("b"), running("a"), running("s")), Actuated: &Actuated{Containers: have}})
	require.Equal(t, []string{"b", "a", "s", "c"}, updateNames(a.UpdateCPU))
	require.Equal(t, []string{"b", "s", "a"}, updateNames(a.UpdateMemory))
	require.Equal(t, "updateMemory=[b s a] updateCPU=[b a s c]", a.String())
	require.Equal(t, Amounts{CPURequest: 80, CPULimit: 50, MemoryRequest: 2 << 20, MemoryLimit: 9 << 20}, a.UpdateCPU[1].Want)
	require.Equal(t, Amounts{CPURequest: 50, CPULimit: 60, MemoryRequest: 2 << 20, MemoryLimit: 8 << 20}, a.UpdateCPU[1].Have)
	require.Equal(t, 2, a.UpdateCPU[3].Index)
	require.Equal(t, ids(list(running("c"))), []string{a.UpdateCPU[3].ID.ID})
}

// KEP-2837: a container without a limit has the pod's.
func TestResizePodLevel(t *testing.T) {
	old, grown := res("100m", "200m", "64Mi", "128Mi"), res("100m", "400m", "64Mi", "256Mi")
	pod := testPod(always, "a", "b")
	pod.Spec.Resources = &grown
	pod.Spec.Containers[1].Resources = res("", "100m", "", "32Mi")
	status := observedPod(ready(), running("a"), running("b"))
	actuated := &Actuated{Pod: &old, Containers: map[string]v1.ResourceRequirements{"a": {}, "b": pod.Spec.Containers[1].Resources}}
	a := decide(t, Input{Pod: pod, Status: status, Actuated: actuated})
	require.True(t, a.UpdatePodLevelResources)
	require.Equal(t, []string{"a"}, updateNames(a.UpdateCPU))
	require.Equal(t, []string{"a"}, updateNames(a.UpdateMemory))
	require.Equal(t, Amounts{CPULimit: 400, MemoryLimit: 256 << 20}, a.UpdateCPU[0].Want)
	require.Equal(t, Amounts{CPULimit: 200, MemoryLimit: 128 << 20}, a.UpdateCPU[0].Have)

	actuated.Pod = &grown
	require.Equal(t, Actions{SandboxID: "s"}, decide(t, Input{Pod: pod, Status: status, Actuated: actuated}), "applied")
	actuated.Pod = nil
	require.True(t, decide(t, Input{Pod: pod, Status: status, Actuated: actuated}).UpdatePodLevelResources, "without a record it is sent again")
	actuated.Pod, pod.Spec.Resources = &old, nil
	require.False(t, decide(t, Input{Pod: pod, Status: status, Actuated: actuated}).UpdatePodLevelResources, "it cannot be taken away")
}

// A container is not resized unless it is running in a usable sandbox. No container is resized in
// a pod that is being deleted, or without Actuated.
func TestNoResize(t *testing.T) {
	want := res("1", "1", "1Mi", "1Mi")
	resized := func(changes ...func(*v1.Pod)) *v1.Pod {
		pod := with(testPod(never, "i", "a"), changes...)
		podfacts.Container(pod, "i").Resources, podfacts.Container(pod, "a").Resources, pod.Spec.Resources = want, want, &want
		return pod
	}
	for name, in := range map[string]Input{
		"no actuated":     {Pod: resized(), Status: observedPod(ready(), running("a"))},
		"deleted":         {Pod: resized(deleted), Status: observedPod(ready(), running("a")), Actuated: &Actuated{}},
		"over":            {Pod: resized(), Status: observedPod(ready(), exited("a", 0)), Actuated: &Actuated{}},
		"init failed":     {Pod: resized(), Status: observedPod(ready(), exited("i", 1)), Actuated: &Actuated{}},
		"sandbox changed": {Pod: resized(), Status: observedPod(dead(), running("a")), Actuated: &Actuated{}},
	} {
		a := decide(t, in)
		require.False(t, a.Resizes(), name)
	}
	require.True(t, Actuated{}.Empty())
	require.False(t, Actuated{Pod: &want}.Empty())
	require.False(t, Actuated{Containers: map[string]v1.ResourceRequirements{"a": want}}.Empty())
	a := decide(t, Input{Pod: resized(), Status: observedPod(ready(), created("a"), exited("i", 0)), Actuated: &Actuated{Pod: &want}})
	require.False(t, a.Resizes(), "not running")
	a = decide(t, Input{Pod: resized(), Status: observedPod(ready(), running("a", otherHash)), Actuated: &Actuated{Pod: &want}})
	require.False(t, a.Resizes(), "replaced anyway")

	// A new sandbox is in the pod's cgroup, which may still have its former values.
	a = decide(t, Input{Pod: resized(), Status: observedPod(dead()), Actuated: &Actuated{Pod: new(res("2", "2", "2Mi", "2Mi"))}})
	require.True(t, a.CreateSandbox && a.UpdatePodLevelResources)
	a = decide(t, Input{Pod: resized(), Status: observedPod(nil), Actuated: &Actuated{}})
	require.True(t, a.CreateSandbox && !a.UpdatePodLevelResources, "the first sandbox")
}

// Containers that do not run, or are restarted, change the pod's cgroup before they start.
func TestResizeOfStoppedContainers(t *testing.T) {
	had, wanted := res("100m", "100m", "20Mi", "20Mi"), res("100m", "100m", "200Mi", "200Mi")
	for _, tc := range []struct {
		name   string
		pod    *v1.Pod
		status *observed.Pod
		want   []string
	}{
		{"runs", testPod(always, "a"), observedPod(ready(), running("a")), nil},
		{"in back-off", testPod(always, "a"), observedPod(ready(), exited("a", 1)), []string{"a"}},
		{"never started", testPod(always, "a", "b"), observedPod(ready(), running("b")), []string{"a"}},
		{"created only", testPod(always, "a"), observedPod(ready(), created("a")), []string{"a"}},
		{"unknown", testPod(always, "a"), observedPod(ready(), unknown("a")), []string{"a"}},
		{"replaced", testPod(always, "a"), observedPod(ready(), running("a", otherHash)), []string{"a"}},
		{"before initialisation", testPod(always, "i", "a"), observedPod(ready(), running("i")), []string{"a"}},
		{"init container in back-off", testPod(always, "i", "a"), observedPod(ready(), exited("i", 1)), []string{"i", "a"}},
		{"sidecar", testPod(always, "s", "a"), observedPod(ready(), running("a"), exited("s", 1)), []string{"s"}},
		{"new sandbox", testPod(always, "a"), observedPod(dead(), running("a")), []string{"a"}},
		{"no sandbox", testPod(always, "a"), observedPod(nil), []string{"a"}},
		{"over", testPod(v1.RestartPolicyNever, "a"), observedPod(ready(), exited("a", 1)), nil},
		{"deleted", with(testPod(always, "a"), deleted), observedPod(ready(), exited("a", 1)), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			actuated := &Actuated{Containers: map[string]v1.ResourceRequirements{}}
			for _, containers := range [][]v1.Container{tc.pod.Spec.InitContainers, tc.pod.Spec.Containers} {
				for i := range containers {
					containers[i].Resources, actuated.Containers[containers[i].Name] = wanted, had
				}
			}
			if b := podfacts.Container(tc.pod, "b"); b != nil {
				b.Resources = had
			}
			a := decide(t, Input{Pod: tc.pod, Status: tc.status, Actuated: actuated})
			require.Equal(t, tc.want, a.UpdateStopped)
			require.Equal(t, len(tc.want) > 0, a.UpdatePodResources)
			actuated.Containers = nil
			require.Empty(t, decide(t, Input{Pod: tc.pod, Status: tc.status, Actuated: actuated}).UpdateStopped, "without a record")
		})
	}
}
