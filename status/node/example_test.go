package node_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status/node"
)

func ExampleCompute() {
	facts := node.Facts{
		Now:       time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
		Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.7"}},
		Machine:   &node.Machine{ID: "f00d", BootID: "1", Cores: 4, Memory: 8 << 30, Storage: 64 << 30},
		NotReady:  []string{"the tunnel is down"},
	}
	first := node.Compute(nil, facts)
	fmt.Println(first.Capacity.Cpu(), first.Capacity.Memory(), node.Condition(first, v1.NodeReady).Message)

	facts.Now, facts.NotReady = facts.Now.Add(time.Minute), nil
	second := node.Compute(first, facts)
	fmt.Println(node.Ready(second), node.Changed(first, second))
	for _, e := range node.Events("edge-7", first, second) {
		fmt.Println(e.Reason)
	}
	// Output:
	// 4 8Gi the tunnel is down
	// true true
	// NodeReady
}

func ExampleSetters() {
	tunnel := func(status *v1.NodeStatus, facts *node.Facts) {
		node.SetCondition(status, facts, v1.NodeCondition{Type: "TunnelUp", Status: v1.ConditionTrue})
	}
	status := node.Compute(nil, node.Facts{Now: time.Now()}, append(node.Setters(), tunnel)...)
	for _, c := range status.Conditions {
		fmt.Println(c.Type, c.Status)
	}
	// Output:
	// Ready False
	// TunnelUp True
}

func ExampleTiming() {
	timing, err := node.Timing{Name: "edge-7"}.WithDefaults()
	if err != nil {
		panic(err)
	}
	now := time.Now()
	last := timing.Wrote(node.Written{At: now}, now, false) // a heartbeat
	fmt.Println(timing.Due(last, now.Add(4*time.Minute), false))
	fmt.Println(timing.Due(last, now.Add(4*time.Minute), true))
	fmt.Println(timing.Due(last, now.Add(5*time.Minute), false))
	// Output:
	// false
	// true
	// true
}
