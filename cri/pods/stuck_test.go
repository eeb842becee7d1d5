package pods

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
)

// A container whose start was cut off and that the runtime then refuses to remove, for
// good: after some tries in a row the pod's error says what a person can do, and an
// event says it once.
func TestContainerThatCannotBeRemoved(t *testing.T) {
	gone, stuck := status.Error(codes.Unavailable, "not there for a moment"), status.Error(codes.Unknown, "cannot delete running task")
	rules, err := fake.NewRules(0,
		fake.Rule{Call: "StartContainer", Nth: 1, Err: status.Error(codes.Unknown, "cut off")},
		fake.Rule{Call: "RemoveContainer", Nth: 4, Err: gone},
		fake.Rule{Call: "RemoveContainer", Times: 9, Err: stuck})
	require.NoError(t, err)
	h := newHarness(t, fake.Config{Intercept: rules.Intercept})
	var events []string
	h.cfg.Event = func(_ v1.ObjectReference, _, reason, message string) { events = append(events, reason+": "+message) }
	h.restart()
	pod := testPod("a")
	require.ErrorContains(t, h.sync(pod).Err(), "cut off")
	id := h.status(pod).Newest("a").ID.ID
	events = nil
	for try := 1; try <= 9; try++ {
		text := h.sync(pod).Err().Error()
		remedy := "the runtime has refused to remove container a (" + id + ") 5 times in a row: "
		if try < 6 { // the 4th does not count
			require.NotContains(t, text, "in a row", try)
			require.Empty(t, events)
			continue
		}
		require.Contains(t, text, "runc init", try)
		require.Contains(t, text, "restart the runtime")
		require.Len(t, events, 1)
		require.Contains(t, events[0], "FailedRemoveContainer: "+remedy)
	}
	h.mustSync(pod)
	require.Empty(t, h.m.refusals.counts)
}

// What is gone, and what was removed in the end, is not counted for ever.
func TestRefusalsAreForgotten(t *testing.T) {
	var r refusals
	for range 7 {
		r.add("a")
	}
	require.Equal(t, 1, r.add("b"))
	r.retain(map[string]bool{"a": true})
	require.Equal(t, 8, r.add("a"))
	require.Equal(t, 1, r.add("b"))
	r.forget("a")
	r.forget("b")
	require.Empty(t, r.counts)
}
