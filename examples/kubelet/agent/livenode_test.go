package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// N15: a pod that came for a label which the watch has not shown yet runs, since the Node is
// read before it is refused. One that the Node does not suit is refused by then, one read is for
// all of them, and while the Node cannot be read they wait.
func TestNodeIsReadBeforeAPodIsRefused(t *testing.T) {
	inCluster(t, func(w *world) {
		w.start()
		w.sleep(5 * time.Second)
		n, ok := apitest.Find(w.api, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		require.True(t, ok)
		// The watch is cut, and comes again late; the Node is read all the same.
		w.api.SetFault(func(c apitest.Call) (f apitest.Fault) {
			if c.Resource == "nodes" && (c.Verb == "watch" || c.Verb == "list") {
				f.Status = 503
			}
			return f
		})
		w.api.CloseWatches()
		w.sleep(time.Second)
		n.Labels["room"] = "3"
		w.api.Put(n)
		in := func(room string) {
			for _, number := range []string{"1", "2"} {
				pod := bound("room"+room+"-"+number, "c"+room+"-"+number)
				pod.Spec.NodeSelector = map[string]string{"room": room}
				w.api.Put(pod)
			}
		}
		w.sleep(time.Second)
		require.NotContains(t, w.agent.cluster.thisNode().Labels, "room")
		before := w.api.CountCalls("get", "nodes")
		in("3")
		in("4")
		w.sleep(5 * time.Second)
		require.Equal(t, map[string][]uint32{"c3-1": {0}, "c3-2": {0}}, w.running())
		for _, name := range []string{"room4-1", "room4-2"} {
			require.Equal(t, "Failed NodeAffinity", strings.TrimSpace(string(w.at(name).Status.Phase)+" "+w.at(name).Status.Reason))
		}
		require.LessOrEqual(t, w.api.CountCalls("get", "nodes")-before, 4, "a read is for all that wait")

		w.api.SetFault(func(c apitest.Call) (f apitest.Fault) {
			if c.Resource == "nodes" {
				f.Status = 503
			}
			return f
		})
		in("5")
		w.sleep(time.Minute)
		require.NotEqual(t, v1.PodFailed, w.at("room5-1").Status.Phase, "it is not known what the Node is like")
		w.api.SetFault(nil)
		w.sleep(time.Minute)
		require.Equal(t, v1.PodFailed, w.at("room5-1").Status.Phase)
		require.Equal(t, v1.PodFailed, w.at("room5-2").Status.Phase)
	})
}
