package cluster_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
)

// N10, N11, N12: a full node refuses pods, makes room for a critical one, and refuses those
// that it is to be rid of.
func TestAdmission(t *testing.T) {
	onNodes(t, func(t *testing.T, n *node) {
		b := n.standBy(t)
		pod := func(name, cpu, more string) {
			n.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: `+name+`}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  containers: [{image: TESTPROG, name: c, resources: {requests: {cpu: `+cpu+`}}}]
`+more)
		}
		const critical = "  priorityClassName: system-node-critical\n"
		pod("small", "100m", "")
		has, err := resource.ParseQuantity(n.get(t, "node", n.name, "{.status.allocatable.cpu}"))
		require.NoError(t, err)
		most := fmt.Sprintf("%dm", has.MilliValue()-400)
		pod("large", most, "")
		n.ready(t, "small")
		n.ready(t, "large")
		pod("late", most, "")
		n.becomes(t, "pod", "late", "{.status.phase} {.status.reason}", "Failed OutOfcpu")
		n.tells(t, "late", "OutOfcpu", "Node didn't have enough resource: cpu")
		pod("crit", most, critical)
		n.ready(t, "crit")
		n.becomes(t, "pod", "large", "{.status.phase} {.status.reason}: {.status.message}", "Failed Preempting: Preempted in order to admit critical pod")
		require.Equal(t, "True", n.get(t, "pod", "large", `{.status.conditions[?(@.type=="DisruptionTarget")].status}`))
		n.tells(t, "large", "Preempting", "Preempted in order to admit critical pod")
		n.ready(t, "small")
		pod("huge", "1000", critical)
		n.becomes(t, "pod", "huge", "{.status.reason}", "UnexpectedAdmissionError")
		b.noticedNothing(t)
	})
}
