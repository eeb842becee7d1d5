package admission

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop"
)

// Without an API server a static pod is admitted when there is room. Other rejections, and
// rejections of other pods, are final.
func TestAwaitRoom(t *testing.T) {
	fit, err := New(Config{Allocatable: node(list("cpu", "1")), Preempt: func(*v1.Pod, []*v1.Pod, []Shortage) {}})
	require.NoError(t, err)
	room := fit.AwaitRoom(fit)
	one, web := newPod("one", list("cpu", "1"), static), newPod("web", list("cpu", "500m"), static)
	err = room.Admit(web, []*v1.Pod{one})
	require.EqualError(t, err, "waiting for room: OutOfcpu: Node didn't have enough resource: cpu, requested: 500, used: 1000, capacity: 1000")
	var rejection *syncloop.Rejection
	require.False(t, errors.As(err, &rejection), "a rejection is final")
	require.NoError(t, room.Admit(web, nil))
	require.Equal(t, "OutOfcpu", reasonOf(t, room.Admit(newPod("api", list("cpu", "500m")), []*v1.Pod{one})))

	require.Equal(t, "OutOfcpu", reasonOf(t, room.Admit(newPod("large", list("cpu", "2"), static), []*v1.Pod{one})), "it exceeds the node")

	fitless, err := New(Config{Allocatable: node(nil)})
	require.NoError(t, err)
	err = fitless.Admit(web, nil)
	require.EqualError(t, err, "waiting for the node's allocatable resources")
	require.False(t, errors.As(err, &rejection))

	for reason, waits := range map[string]bool{
		"OutOfmemory": true, "OutOfexample.com/dongle": true, "NodePorts": true, "TopologyAffinityError": true,
		"UnexpectedAdmissionError": false, "SysctlForbidden": false, "NodeShutdown": false,
	} {
		calls := 0
		err := fit.AwaitRoom(syncloop.AdmitterFunc(func(*v1.Pod, []*v1.Pod) error { calls++; return syncloop.Reject(reason, "message") })).Admit(web, nil)
		require.Equal(t, !waits, errors.As(err, &rejection), reason)
		require.Equal(t, 1, calls)
	}
}
