package eviction

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop"
)

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
