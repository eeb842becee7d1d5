package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// inRoom is a pod for nodes with a label.
func inRoom(room, name string) *v1.Pod {
	pod := bound(name, name)
	pod.Spec.NodeSelector = map[string]string{"room": room}
	return pod
}

// faultOfNodes is a fault of calls about nodes, of these verbs or of all.
func faultOfNodes(f apitest.Fault, verbs ...string) func(apitest.Call) apitest.Fault {
	return func(c apitest.Call) apitest.Fault {
		if c.Resource == "nodes" && (len(verbs) == 0 || slices.Contains(verbs, c.Verb)) {
			return f
		}
		return apitest.Fault{}
	}
}

// Labels that others gave to the Node count from the start: pods that came here because of
// them are not looked at before the Node was seen.
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

// N15: a pod that came for a label which the watch has not shown yet runs, since the Node is
// read before it is refused. One that the Node does not suit is refused by then, one read is for
// all of them, and while the Node cannot be read they wait.
func TestNodeIsReadBeforeAPodIsRefused(t *testing.T) {
	inCluster(t, func(w *world) {
		w.startFor(5 * time.Second)
		// The watch is cut, and comes again late; the Node is read all the same.
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
		require.LessOrEqual(t, w.api.CountCalls("get", "nodes")-before, 4, "a read is for all that wait")

		w.api.SetFault(faultOfNodes(apitest.Fault{Status: 503}))
		w.put(inRoom("5", "e"), inRoom("5", "f"))
		w.Sleep(time.Minute)
		require.NotEqual(t, v1.PodFailed, w.at("e").Status.Phase, "it is not known what the Node is like")
		w.api.SetFault(nil)
		w.Sleep(time.Minute)
		require.Equal(t, v1.PodFailed, w.at("e").Status.Phase)
		require.Equal(t, v1.PodFailed, w.at("f").Status.Phase)
	})
}
