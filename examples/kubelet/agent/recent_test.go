package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/podworkers"
)

func podRef(uid types.UID, container string) v1.ObjectReference {
	return v1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "p", UID: uid, FieldPath: "spec.containers{" + container + "}"}
}

// Equal events of a pod are counted. The number of events, their messages and the number of pods
// are bounded.
func TestRecentEventsAreBounded(t *testing.T) {
	r, now := newRecentEvents(), time.Unix(100, 0)
	for i := range 3 {
		r.add(podRef("1", "c"), "Warning", "BackOff", "again", now.Add(time.Duration(i)*time.Second))
	}
	r.add(v1.ObjectReference{Kind: "Node", UID: "n"}, "Warning", "SystemOOM", "java", now)
	events, _ := r.of("1")
	require.Equal(t, []server.EventReport{{Type: "Warning", Reason: "BackOff", Message: "again", Container: "c", Count: 3, At: now.Add(2 * time.Second)}}, events)
	for i := range 10 * recentPerPod {
		r.add(podRef("1", fmt.Sprint(i)), "Normal", "Killing", fmt.Sprint(i, strings.Repeat("é", recentMessage)), now)
	}
	events, kills := r.of("1")
	require.Len(t, events, recentPerPod)
	require.LessOrEqual(t, len(kills), recentPerPod)
	require.Equal(t, fmt.Sprint(10*recentPerPod-1), events[0].Container)
	require.LessOrEqual(t, len(events[0].Message), recentMessage)
	require.True(t, strings.HasSuffix(events[0].Message, "é…"))
	for i := range 2 * recentPods {
		r.add(podRef(types.UID("u"+fmt.Sprint(i)), "c"), "Normal", "Pulled", "", now)
	}
	require.Len(t, r.pods, recentPods)

	r.keep([]*v1.Pod{podOf("1", "", "c")}, map[types.UID]podworkers.KnownPod{"u7": {}})
	require.Len(t, r.pods, 2)
	require.Contains(t, r.pods, types.UID("u7"))
	var none *recentEvents
	none.add(podRef("1", "c"), "Normal", "Pulled", "", now)
	events, kills = none.of("1")
	require.Empty(t, events)
	require.Empty(t, kills)
}

// The events of a pod end with the pod.
func TestRecentEventsEndWithTheirPod(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		w.set(podOf("1", v1.RestartPolicyAlways, "a"))
		w.startFor(10 * time.Second)
		require.Contains(t, w.agent.in.recorder.recent.pods, types.UID("1"))
		require.NotEmpty(t, w.report("pod-1").Events)
		w.set()
		w.Sleep(2 * time.Minute)
		w.requireNothingLeft()
		require.Empty(t, w.agent.in.recorder.recent.pods)
	})
}

func TestContainerOf(t *testing.T) {
	for path, want := range map[string]string{"": "", "spec.containers{web}": "web", "spec.initContainers{a-b}": "a-b", "spec.containers{web": "", "spec": ""} {
		require.Equal(t, want, containerOf(path), path)
	}
}
