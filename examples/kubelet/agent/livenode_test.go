package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

func inRoom(room, name string) *v1.Pod {
	pod := bound(name, name)
	pod.Spec.NodeSelector = map[string]string{"room": room}
	return pod
}

// faultOfNodes returns a fault of calls about nodes, with these verbs or with all.
func faultOfNodes(f apitest.Fault, verbs ...string) func(apitest.Call) apitest.Fault {
	return func(c apitest.Call) apitest.Fault {
		if c.Resource == "nodes" && (len(verbs) == 0 || slices.Contains(verbs, c.Verb)) {
			return f
		}
		return apitest.Fault{}
	}
}

// Labels set by other clients count from the start: pods that need them are not admitted or rejected
// before the Node was seen.
func TestPodsWaitForTheNode(t *testing.T) {
	inCluster(t, func(w *world) {
		w.startFor(3 * time.Second)
		w.editNode(func(n *v1.Node) { n.Labels["room"] = "3" })
		w.Sleep(3 * time.Second)
		w.put(inRoom("3", "a"))
		w.Sleep(3 * time.Second)
		require.Equal(t, map[string][]uint32{"a": {0}}, w.Running())
		w.stop()
		w.api.SetFault(faultOfNodes(apitest.Fault{Delay: 10 * time.Second}))
		w.put(inRoom("3", "b"))
		w.startFor(time.Minute)
		require.Equal(t, v1.PodRunning, w.at("a").Status.Phase)
		require.Equal(t, map[string][]uint32{"a": {0}, "b": {0}}, w.Running())
	})
}

// N15: a pod that needs a label which the watch has not delivered runs, because the Node is read
// before a rejection. A pod that does not match is rejected after the read. One read serves all
// pods, and pods wait while reads fail.
func TestNodeIsReadBeforeAPodIsRefused(t *testing.T) {
	inCluster(t, func(w *world) {
		w.startFor(5 * time.Second)
		// The watch is cut and resumes late. Reads of the Node still work.
		w.api.SetFault(faultOfNodes(apitest.Fault{Status: 503}, "watch", "list"))
		w.api.CloseWatches()
		w.Sleep(time.Second)
		w.editNode(func(n *v1.Node) { n.Labels["room"] = "3" })
		w.Sleep(time.Second)
		require.NotContains(t, w.agent.in.cluster.thisNode().Labels, "room")
		before := w.api.CountCalls("get", "nodes")
		w.put(inRoom("3", "a"), inRoom("3", "b"), inRoom("4", "c"), inRoom("4", "d"))
		w.Sleep(5 * time.Second)
		require.Equal(t, map[string][]uint32{"a": {0}, "b": {0}}, w.Running())
		for _, name := range []string{"c", "d"} {
			require.Contains(t, w.ended(name), "Failed NodeAffinity: ")
		}
		require.LessOrEqual(t, w.api.CountCalls("get", "nodes")-before, 4, "one read serves all waiting pods")

		w.api.SetFault(faultOfNodes(apitest.Fault{Status: 503}))
		w.put(inRoom("5", "e"), inRoom("5", "f"))
		w.Sleep(time.Minute)
		require.NotEqual(t, v1.PodFailed, w.at("e").Status.Phase, "the Node's labels are unknown")
		w.api.SetFault(nil)
		w.Sleep(time.Minute)
		require.Equal(t, v1.PodFailed, w.at("e").Status.Phase)
		require.Equal(t, v1.PodFailed, w.at("f").Status.Phase)
	})
}

// Pods run on a Node that an operator created without a status, also while this agent cannot write
// one: the allocatable resources of the machine count.
func TestNodeWithoutAllocatable(t *testing.T) {
	inCluster(t, func(w *world) {
		w.api.SetFault(faultOfNodes(apitest.Fault{Status: 403}, "patch", "update", "create"))
		w.api.Put(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		w.put(bound("a", "a"))
		w.startFor(time.Minute)
		require.Equal(t, v1.PodRunning, w.at("a").Status.Phase)
	})
}

// A watch event of a Node without UID changes no Node: without its labels, pods would be rejected.
func TestEventOfANodeWithoutUID(t *testing.T) {
	inCluster(t, func(w *world) {
		w.startFor(5 * time.Second)
		w.api.SetFault(faultOfNodes(apitest.Fault{Body: `{"type":"MODIFIED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","resourceVersion":"9"}}}`}, "watch"))
		w.api.CloseWatches()
		w.Sleep(5 * time.Second)
		require.NotEmpty(t, w.agent.in.cluster.thisNode().UID)
		require.NotEmpty(t, w.agent.in.cluster.thisNode().Labels)
	})
}
