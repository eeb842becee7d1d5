package node

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// N4: the transition time changes once.
func TestReady(t *testing.T) {
	down := func(seconds int) Facts {
		f := whole(at(seconds))
		f.NotReady = []string{"", "runtime is down", "network is down", "runtime is down"}
		return f
	}
	status := Compute(nil, whole(at(0)))
	for _, step := range []struct {
		facts      Facts
		transition int
		want       v1.ConditionStatus
		reason     string
		message    string
	}{
		{whole(at(10)), 0, v1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"},
		{down(20), 20, v1.ConditionFalse, "KubeletNotReady", "[runtime is down, network is down]"},
		{down(30), 20, v1.ConditionFalse, "KubeletNotReady", "[runtime is down, network is down]"},
		{with(down(40), func(f *Facts) { f.NotReady = f.NotReady[2:3] }), 20, v1.ConditionFalse, "KubeletNotReady", "network is down"},
		{whole(at(50)), 50, v1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"},
	} {
		status = Compute(status, step.facts)
		c := Condition(status, v1.NodeReady)
		require.Equal(t, step.want, c.Status)
		require.Equal(t, step.reason, c.Reason)
		require.Equal(t, step.message, c.Message)
		require.Equal(t, at(step.transition).Unix(), c.LastTransitionTime.Unix())
		require.Equal(t, step.facts.Now.Unix(), c.LastHeartbeatTime.Unix())
	}
}

func TestReadyNeedsCapacity(t *testing.T) {
	f := whole(at(0))
	f.Machine.Storage = 0
	require.Equal(t, "missing node capacity for resources: ephemeral-storage", Condition(Compute(nil, f), v1.NodeReady).Message)
	f.Machine = nil
	f.NoLocalStorage = true
	require.Equal(t, "missing node capacity for resources: cpu, memory, pods", Condition(Compute(nil, f), v1.NodeReady).Message)
}

func TestPressure(t *testing.T) {
	status := Compute(nil, whole(at(0)))
	require.Equal(t, "KubeletHasSufficientMemory", Condition(status, v1.NodeMemoryPressure).Reason)
	require.Equal(t, "KubeletHasNoDiskPressure", Condition(status, v1.NodeDiskPressure).Reason)
	require.Equal(t, "KubeletHasSufficientPID", Condition(status, v1.NodePIDPressure).Reason)
	status = Compute(status, with(whole(at(10)), func(f *Facts) { f.Pressure = &Pressure{Memory: true, Disk: true, PID: true} }))
	for kind, reason := range map[v1.NodeConditionType]string{
		v1.NodeMemoryPressure: "KubeletHasInsufficientMemory",
		v1.NodeDiskPressure:   "KubeletHasDiskPressure",
		v1.NodePIDPressure:    "KubeletHasInsufficientPID",
	} {
		c := Condition(status, kind)
		require.Equal(t, v1.ConditionTrue, c.Status)
		require.Equal(t, reason, c.Reason)
		require.Equal(t, at(10).Unix(), c.LastTransitionTime.Unix())
	}
	require.True(t, Ready(status), "pressure does not affect Ready")
	unknown := Compute(status, with(whole(at(20)), func(f *Facts) { f.Pressure = nil }))
	require.Equal(t, *Condition(status, v1.NodeDiskPressure), *Condition(unknown, v1.NodeDiskPressure), "pressure was not measured")
}

// setReady repairs a condition that others have changed or duplicated.
func TestConditionsAreRepaired(t *testing.T) {
	old := &v1.NodeStatus{Conditions: []v1.NodeCondition{
		{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "Edited"},
		{Type: "Other"},
		{Type: v1.NodeReady, Status: v1.ConditionFalse, LastTransitionTime: metav1.NewTime(at(-5))},
		{Type: v1.NodeReady},
	}}
	got := Compute(old, whole(at(0)))
	kinds := map[v1.NodeConditionType]int{}
	for _, c := range got.Conditions {
		kinds[c.Type]++
	}
	require.Equal(t, map[v1.NodeConditionType]int{v1.NodeReady: 1, "Other": 1, v1.NodeMemoryPressure: 1, v1.NodeDiskPressure: 1, v1.NodePIDPressure: 1}, kinds)
	c := Condition(got, v1.NodeReady)
	require.Equal(t, "KubeletReady", c.Reason)
	require.Equal(t, at(0).Unix(), c.LastTransitionTime.Unix(), "a condition without a time begins now")
	require.Nil(t, Condition(nil, v1.NodeReady))
	require.False(t, Ready(nil))
}

func TestEvents(t *testing.T) {
	healthy := Compute(nil, whole(at(0)))
	unhealthy := Compute(healthy, with(whole(at(10)), func(f *Facts) {
		f.NotReady = []string{"x"}
		f.Pressure = &Pressure{Disk: true}
	}))
	reboot := Compute(unhealthy, with(whole(at(20)), func(f *Facts) { f.Machine.BootID = "other" }))
	reasons := func(old, new *v1.NodeStatus) (out []string) {
		for _, e := range Events("n", old, new) {
			out = append(out, e.Type+" "+e.Reason+": "+e.Message)
		}
		return out
	}
	require.Empty(t, reasons(healthy, Compute(healthy, whole(at(5)))))
	require.Equal(t, []string{
		"Normal NodeHasSufficientMemory: Node n status is now: NodeHasSufficientMemory",
		"Normal NodeHasNoDiskPressure: Node n status is now: NodeHasNoDiskPressure",
		"Normal NodeHasSufficientPID: Node n status is now: NodeHasSufficientPID",
	}, reasons(nil, healthy), "a new node has no transition to Ready")
	require.Equal(t, []string{
		"Normal NodeHasDiskPressure: Node n status is now: NodeHasDiskPressure",
		"Normal NodeNotReady: Node n status is now: NodeNotReady",
	}, reasons(healthy, unhealthy))
	require.Equal(t, []string{ // N41
		"Warning Rebooted: Node n has been rebooted, boot id: other",
		"Normal NodeHasNoDiskPressure: Node n status is now: NodeHasNoDiskPressure",
		"Normal NodeReady: Node n status is now: NodeReady",
	}, reasons(unhealthy, reboot))
	require.Empty(t, reasons(reboot, Compute(reboot, Facts{Now: at(30)})), "an unknown boot ID is not a reboot")
	nameless := reboot.DeepCopy()
	nameless.NodeInfo.BootID = ""
	require.Empty(t, reasons(reboot, nameless), "a boot without an ID is not a reboot")
	require.Empty(t, reasons(nameless, reboot))

	short := Compute(healthy, with(whole(at(10)), func(f *Facts) { f.Pressure = &Pressure{Memory: true, PID: true} }))
	require.Equal(t, []string{
		"Normal NodeHasInsufficientMemory: Node n status is now: NodeHasInsufficientMemory",
		"Normal NodeHasInsufficientPID: Node n status is now: NodeHasInsufficientPID",
	}, reasons(healthy, short))
}
