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
func TestOffenders(t *testing.T) {
	request := requests(v1.ResourceMemory, "10Mi")
	podRequest := func(list v1.ResourceList) func(*v1.Pod) {
		return func(pod *v1.Pod) { pod.Spec.Resources = &v1.ResourceRequirements{Requests: list} }
	}
	memory := podRequest(v1.ResourceList{v1.ResourceMemory: resource.MustParse("10Mi")})
	used := uint64(30 * mi)
	ofPod := PodUsage{Memory: &used}
	for name, c := range map[string]struct {
		signal Signal
		pod    *v1.Pod
		use    PodUsage
		want   string
		notes  map[string]string
	}{
		"within its request":                    {MemoryAvailable, newPod("a", request), memoryUse(9 * mi), "", nil},
		"equal to its request":                  {MemoryAvailable, newPod("a", request), memoryUse(10 * mi), "", nil},
		"above its request":                     {MemoryAvailable, newPod("a", request), memoryUse(11 * mi), "Container c was using 11Mi, request is 10Mi, has larger consumption of memory. ", map[string]string{offendingContainers: "c", offendingContainersUsage: "11Mi"}},
		"request above the maximum":             {MemoryAvailable, newPod("a", requests(v1.ResourceMemory, "9223372036854775808")), memoryUse(9 * mi), "", nil},
		"negative request":                      {MemoryAvailable, newPod("a", requests(v1.ResourceMemory, "-1")), PodUsage{}, "", nil},
		"not measured":                          {MemoryAvailable, newPod("a"), PodUsage{}, "", nil},
		"pod-level request":                     {MemoryAvailable, newPod("a", memory), ofPod, "Pod a was using 30Mi, request is 10Mi, has larger consumption of memory. ", map[string]string{offendingPod: "a", offendingPodUsage: "30Mi"}},
		"within its pod-level request":          {MemoryAvailable, newPod("a", podRequest(v1.ResourceList{v1.ResourceMemory: resource.MustParse("30Mi")})), ofPod, "", nil},
		"pod-level request, not measured":       {MemoryAvailable, newPod("a", memory), PodUsage{}, "", nil},
		"pod-level request of another resource": {MemoryAvailable, newPod("a", podRequest(v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")})), ofPod, "", nil},
		"signal of another resource":            {NodeFSAvailable, newPod("a", podRequest(v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1")})), ofPod, "", nil},
		"writable layer":                        {NodeFSAvailable, newPod("a"), diskUse(2, 0, 9), "Container c was using 2, request is 0, has larger consumption of ephemeral-storage. ", map[string]string{offendingContainers: "c", offendingContainersUsage: "2"}},
		"writable layer and logs":               {NodeFSAvailable, newPod("a", requests(v1.ResourceEphemeralStorage, "10Mi")), diskUse(20*mi, 3*mi, 0), "Container c was using 23Mi, request is 10Mi, has larger consumption of ephemeral-storage. ", map[string]string{offendingContainers: "c", offendingContainersUsage: "23Mi"}},
		"logs":                                  {NodeFSAvailable, newPod("a"), PodUsage{Containers: map[string]ContainerUsage{"c": {Logs: Disk{Bytes: &used}}}}, "Container c was using 30Mi, request is 0, has larger consumption of ephemeral-storage. ", map[string]string{offendingContainers: "c", offendingContainersUsage: "30Mi"}},
	} {
		u := usageOf(c.signal, 1, 1000, noon)
		u.Pods["a"] = c.use
		v := Policy{}.victim(c.pod, Met{Threshold: hard(c.signal, 100), Reading: u.Signals[c.signal]}, u, noon)
		require.Equal(t, "The node was low on resource: "+string(c.signal.Resource())+". Threshold quantity: 100, available: 1. "+c.want, v.Message, name)
		delete(v.Annotations, starvedResource)
		require.Len(t, v.Annotations, len(c.notes), name)
		for key, want := range c.notes {
			require.Equal(t, want, v.Annotations[key], name)
		}
	}
}

// A condition that is already true keeps its time. Other conditions and the passed slice are
// unchanged.
func TestApplyToConditions(t *testing.T) {
	v := Victim{Pod: newPod("a"), Signal: MemoryAvailable, Message: "m", Time: noon}
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
		require.Equal(t, "old", before[1].Message, "the passed slice is unchanged")
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
		{newPod("best-effort"), Pressure{}, true},
		{newPod("best-effort"), memory, false},
		{newPod("burstable", requests(v1.ResourceMemory, "1Mi")), memory, true},
		{newPod("burstable", requests(v1.ResourceMemory, "1Mi")), both, false},
		{newPod("burstable", requests(v1.ResourceMemory, "1Mi")), disk, false},
		{newPod("burstable", requests(v1.ResourceMemory, "1Mi")), Pressure{PID: true}, false},
		{newPod("static", static), both, true},
		{newPod("critical", priority(2_000_000_000)), disk, true},
		{newPod("tolerant", tolerates(taint)), memory, true},
		{newPod("tolerant", tolerates(taint)), both, false},
		{newPod("tolerates all", tolerates(v1.Toleration{Operator: v1.TolerationOpExists})), memory, true},
		{newPod("other effect", tolerates(noExecute)), memory, false},
		{newPod("other value", tolerates(valued)), memory, false},
		{newPod("nothing", tolerates(v1.Toleration{})), memory, false},
		{newPod("no value", tolerates(v1.Toleration{Key: key})), memory, true},
		{newPod("equal to no value", tolerates(v1.Toleration{Key: key, Operator: v1.TolerationOpEqual})), memory, true},
		{newPod("a value", tolerates(v1.Toleration{Key: key, Value: "x"})), memory, false},
		{newPod("another operator", tolerates(v1.Toleration{Key: key, Operator: "Like"})), memory, false},
		{newPod("another taint", tolerates(v1.Toleration{Key: "node.kubernetes.io/disk-pressure", Operator: v1.TolerationOpExists})), memory, false},
		{newPod("no taint", tolerates(v1.Toleration{Operator: v1.TolerationOpEqual})), memory, false},
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
	require.Equal(t, "The node had condition: [MemoryPressure DiskPressure]. ", refusal(newPod("a"), both).Message)
}
