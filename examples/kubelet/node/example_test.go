package node_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/kubelet/node/nodetest"
	nodestatus "github.com/podwright/podwright/status/node"
)

func ExampleNew() {
	api := &nodetest.API{} // in memory
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	n, err := node.New(node.Config{
		Name:   "worker-1",
		Labels: map[string]string{"example.com/disk": "ssd"},
		Nodes:  api, Leases: api,
		Facts: func(context.Context) nodestatus.Facts {
			return nodestatus.Facts{Machine: &nodestatus.Machine{ID: "f00d", Cores: 2, Memory: 4 << 30}, NoLocalStorage: true}
		},
		OnNode: func(n *v1.Node) {
			fmt.Println(n.Name, n.Labels["example.com/disk"], n.Status.Capacity.Cpu(), nodestatus.Ready(&n.Status))
			stop()
		},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(n.Run(ctx))
	// Output:
	// worker-1 ssd 2 true
	// <nil>
}

func ExampleParseTaints() {
	taints, err := node.ParseTaints("dedicated=gpu:NoSchedule")
	fmt.Println(taints[0].Key, taints[0].Value, taints[0].Effect, err)
	_, err = node.ParseTaints("dedicated=gpu:Never")
	fmt.Println(err)
	// Output:
	// dedicated gpu NoSchedule <nil>
	// --register-with-taints: effect "Never" of "dedicated" must be NoSchedule, PreferNoSchedule or NoExecute
}
