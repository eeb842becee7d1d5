package eviction

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/syncloop"
)

// The message of an eviction names containers, and a pod with a pod-level request, whose measured
// usage exceeds the request.
func TestBlame(t *testing.T) {
	asks := requests(v1.ResourceMemory, "10Mi")
	podAsks := func(list v1.ResourceList) func(*v1.Pod) {
		return func(pod *v1.Pod) { pod.Spec.Resources = &v1.ResourceRequirements{Requests: list} }
	}
	memory := podAsks(v1.ResourceList{v1.ResourceMemory: resource.MustParse("10Mi")})
	used := uint64(30 * mi)
	ofPod := PodUsage{Memory: &used}
	for name, c := range map[string]struct {
		signal Signal
		pod    *v1.Pod
		use    PodUsage
		want   string
		notes  map[string]string
	}{
		"within its request":                {MemoryAvailable, named("a", asks), memoryUse(9 * mi), "", nil},
		"all of its request":                {MemoryAvailable, named("a", asks), memoryUse(10 * mi), "", nil},
		"more":                              {MemoryAvailable, named("a", asks), memoryUse(11 * mi), "Container c was using 11Mi, request is 10Mi, has larger consumption of memory. ", map[string]string{OffendingContainers: "c", OffendingContainersUsage: "11Mi"}},
		"asks for more than can be counted": {MemoryAvailable, named("a", requests(v1.ResourceMemory, "9223372036854775808")), memoryUse(9 * mi), "", nil},
		"asks for less than nothing":        {MemoryAvailable, named("a", requests(v1.ResourceMemory, "-1")), PodUsage{}, "", nil},
		"not measured":                      {MemoryAvailable, named("a"), PodUsage{}, "", nil},
		"the pod":                           {MemoryAvailable, named("a", memory), ofPod, "Pod a was using 30Mi, request is 10Mi, has larger consumption of memory. ", map[string]string{OffendingPod: "a", OffendingPodUsage: "30Mi"}},
		"the pod, within":                   {MemoryAvailable, named("a", podAsks(v1.ResourceList{v1.ResourceMemory: resource.MustParse("30Mi")})), ofPod, "", nil},
		"the pod, unmeasured":               {MemoryAvailable, named("a", memory), PodUsage{}, "", nil},
		"the pod asks for other things":     {MemoryAvailable, named("a", podAsks(v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")})), ofPod, "", nil},
		"memory is not short":               {NodeFSAvailable, named("a", podAsks(v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1")})), ofPod, "", nil},
		"has written":                       {NodeFSAvailable, named("a"), diskUse(2, 0, 9), "Container c was using 2, request is 0, has larger consumption of ephemeral-storage. ", map[string]string{OffendingContainers: "c", OffendingContainersUsage: "2"}},
		"has written and logged":            {NodeFSAvailable, named("a", requests(v1.ResourceEphemeralStorage, "10Mi")), diskUse(20*mi, 3*mi, 0), "Container c was using 23Mi, request is 10Mi, has larger consumption of ephemeral-storage. ", map[string]string{OffendingContainers: "c", OffendingContainersUsage: "23Mi"}},
		"has logged":                        {NodeFSAvailable, named("a"), PodUsage{Containers: map[string]ContainerUsage{"c": {Logs: Disk{Bytes: &used}}}}, "Container c was using 30Mi, request is 0, has larger consumption of ephemeral-storage. ", map[string]string{OffendingContainers: "c", OffendingContainersUsage: "30Mi"}},
	} {
		u := left(c.signal, 1, 1000, noon)
		u.Pods["a"] = c.use
		v := Policy{}.victim(c.pod, Met{Threshold: hard(c.signal, 100), Reading: u.Signals[c.signal]}, u, noon)
		require.Equal(t, "The node was low on resource: "+string(c.signal.Resource())+". Threshold quantity: 100, available: 1. "+c.want, v.Message, name)
		delete(v.Annotations, StarvedResource)
		require.Len(t, v.Annotations, len(c.notes), name)
		for key, want := range c.notes {
			require.Equal(t, want, v.Annotations[key], name)
		}
	}
}

// A condition that is already true keeps its time. Other conditions and the passed slice are
// unchanged.
func TestApplyToConditions(t *testing.T) {
	v := Victim{Pod: named("a"), Signal: MemoryAvailable, Message: "m", Time: noon}
	early := metav1.NewTime(noon.Add(-time.Hour))
	for was, want := range map[v1.ConditionStatus]time.Time{v1.ConditionTrue: early.Time, v1.ConditionFalse: noon} {
		before := []v1.PodCondition{{Type: v1.PodReady, Status: was}, {Type: v1.DisruptionTarget, Status: was, Message: "old", LastTransitionTime: early}}
		status := v1.PodStatus{Conditions: before}
		v.Apply(&status)
		require.Len(t, status.Conditions, 2)
		require.Equal(t, before[0], status.Conditions[0])
		got := status.Conditions[1]
		require.Equal(t, v1.ConditionTrue, got.Status)
		require.Equal(t, "m", got.Message)
		require.Equal(t, want, got.LastTransitionTime.Time, was)
		require.Equal(t, "old", before[1].Message, "it is shared")
	}
}

// KillTimeout is 1.5 times the grace period, at least ten seconds.
func TestKillTimeout(t *testing.T) {
	for grace, want := range map[int64]time.Duration{0: 10 * time.Second, 1: 10 * time.Second, 60: 90 * time.Second} {
		require.Equal(t, want, Victim{GraceSeconds: grace}.KillTimeout())
	}
}

// N14
func TestAdmitter(t *testing.T) {
	memory, both, disk := Pressure{Memory: true}, Pressure{Memory: true, Disk: true}, Pressure{Disk: true}
	taint := v1.Toleration{Key: "node.kubernetes.io/memory-pressure", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule}
	noExecute, valued := taint, taint
	noExecute.Effect = v1.TaintEffectNoExecute
	valued.Operator, valued.Value = v1.TolerationOpEqual, "x"
	const key = "node.kubernetes.io/memory-pressure"
	for _, c := range []struct {
		pod      *v1.Pod
		pressure Pressure
		want     bool
	}{
		{named("best-effort"), Pressure{}, true},
		{named("best-effort"), memory, false},
		{named("burstable", requests(v1.ResourceMemory, "1Mi")), memory, true},
		{named("burstable", requests(v1.ResourceMemory, "1Mi")), both, false},
		{named("burstable", requests(v1.ResourceMemory, "1Mi")), disk, false},
		{named("burstable", requests(v1.ResourceMemory, "1Mi")), Pressure{PID: true}, false},
		{named("static", static), both, true},
		{named("critical", priority(2_000_000_000)), disk, true},
		{named("tolerant", tolerates(taint)), memory, true},
		{named("tolerant", tolerates(taint)), both, false},
		{named("tolerates all", tolerates(v1.Toleration{Operator: v1.TolerationOpExists})), memory, true},
		{named("other effect", tolerates(noExecute)), memory, false},
		{named("other value", tolerates(valued)), memory, false},
		{named("nothing", tolerates(v1.Toleration{})), memory, false},
		{named("no value", tolerates(v1.Toleration{Key: key})), memory, true},
		{named("equal to no value", tolerates(v1.Toleration{Key: key, Operator: v1.TolerationOpEqual})), memory, true},
		{named("a value", tolerates(v1.Toleration{Key: key, Value: "x"})), memory, false},
		{named("another operator", tolerates(v1.Toleration{Key: key, Operator: "Like"})), memory, false},
		{named("another taint", tolerates(v1.Toleration{Key: "node.kubernetes.io/disk-pressure", Operator: v1.TolerationOpExists})), memory, false},
		{named("no taint", tolerates(v1.Toleration{Operator: v1.TolerationOpEqual})), memory, false},
	} {
		err := Admitter(func() Pressure { return c.pressure }).Admit(c.pod, nil)
		if c.want {
			require.NoError(t, err, "%s %+v", c.pod.Name, c.pressure)
			continue
		}
		var why *syncloop.Rejection
		require.ErrorAs(t, err, &why, "%s %+v", c.pod.Name, c.pressure)
		require.Equal(t, "Evicted", why.Reason)
	}
	require.Equal(t, "The node had condition: [MemoryPressure DiskPressure]. ", Refusal(named("a"), both).Message)
}
