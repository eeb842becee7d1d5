package cluster_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

const loadDeployments = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: well}
spec:
  replicas: 20
  selector: {matchLabels: {app: well}}
  template:
    metadata: {labels: {app: well}}
    spec: {nodeName: NODE, containers: [PROBED]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: moves}
spec:
  replicas: 2
  selector: {matchLabels: {app: moves}}
  template:
    metadata: {labels: {app: moves}}
    spec: {nodeName: NODE, containers: [` + runningContainer + `}]}
`

// rarelyProbedContainer is probed with a longer period: for twenty pods, forty probe processes a
// second would use all of the machine.
var rarelyProbedContainer = strings.ReplaceAll(probedContainer, "periodSeconds: 1", "periodSeconds: 5")

// A kubelet is killed or stopped ten times while pods are created and deleted. For the staying pods
// no container restarts, no pod becomes unready, no status goes back in time, and no event is
// repeated.
func TestKilledUnderLoad(t *testing.T) {
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		n := newStoppedNode(t, plane, rt, nil)
		n.start(t)
		n.nodeReady(t)
		w := n.watchPods(t)
		n.apply(t, strings.ReplaceAll(loadDeployments, "PROBED", rarelyProbedContainer))
		all := func() error {
			for _, replicas := range []string{"well", "moves"} {
				if out := n.get(t, "deployment", replicas, "{.status.readyReplicas} {.spec.replicas}"); out != "20 20" && out != "2 2" {
					return errors.New(replicas + ": " + out)
				}
			}
			return nil
		}
		n.until(t, "all pods are ready", all)
		ids, events := n.stableContainers(t), n.stableEvents(t)
		for i := range 10 {
			n.do(t, "scale", "deployment", "moves", "--replicas", strconv.Itoa(1+rand.IntN(6)))
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
			if i%3 == 2 {
				n.stop(t)
			} else {
				n.kill(t)
			}
			n.start(t)
		}
		n.do(t, "scale", "deployment", "moves", "--replicas", "2")
		n.until(t, "all pods are ready again", func() error {
			n.unstick(t)
			return all()
		})
		if n.stuck.Restarts > 0 {
			t.Skip("the runtime was restarted, which affects all pods")
		}
		require.Equal(t, ids, n.stableContainers(t))
		require.Equal(t, events, n.stableEvents(t))
		w.requireUndisturbed(t, func(pod *v1.Pod) bool { return pod.Labels["app"] == "well" })
	})
}

// stableContainers returns the containers that must not change.
func (n *node) stableContainers(t *testing.T) map[string]string {
	ids := n.ids(t)
	maps.DeleteFunc(ids, func(name, _ string) bool { return !strings.HasPrefix(name, "well-") })
	require.Len(t, ids, 20)
	return ids
}

// stableEvents returns the counts of events once they are stable for 3 s, because a kubelet may
// write events late.
func (n *node) stableEvents(t *testing.T) (counts map[string]int) {
	n.until(t, "the events are stable", func() error {
		before := counts
		time.Sleep(3 * time.Second)
		if counts = n.countEvents(t); !maps.Equal(before, counts) {
			return fmt.Errorf("%v after %v", counts, before)
		}
		return nil
	})
	return counts
}

// countEvents returns the numbers of the kubelet's events about the staying pods, by pod and
// reason.
func (n *node) countEvents(t *testing.T) map[string]int {
	var list v1.EventList
	require.NoError(t, json.Unmarshal([]byte(n.do(t, "get", "events", "-o", "json")), &list))
	out := map[string]int{}
	for _, e := range list.Items {
		if name := e.InvolvedObject.Name; e.Source.Component == "kubelet" && e.InvolvedObject.Kind == "Pod" && strings.HasPrefix(name, "well-") {
			out[name+" "+e.Reason] += int(max(e.Count, 1))
		}
	}
	return out
}
