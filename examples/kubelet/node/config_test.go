package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/kubelet/node/nodetest"
	nodestatus "github.com/podwright/podwright/status/node"
)

func TestConfig(t *testing.T) {
	api := &nodetest.API{}
	good := node.Config{Name: "n", Nodes: api, Leases: api, Facts: func(context.Context) nodestatus.Facts { return nodestatus.Facts{} }}
	n, err := node.New(good)
	require.NoError(t, err)
	require.EqualError(t, n.Health(), "not registered yet")
	_, err = node.New(node.Config{
		Nodes: (*nodetest.API)(nil), Update: -1, Report: -1, LeaseDuration: -1500 * time.Millisecond, Labels: map[string]string{"a b": ""}, Taints: []v1.Taint{{Key: "a"}},
	})
	for _, want := range []string{
		"Name is required", "Nodes is required", "Leases is required", "Facts is required", "Update is negative", "Report is negative", "LeaseDuration is negative",
		"LeaseDuration: -1.5s is not whole", `Labels: --node-labels: key "a b"`, `Taints: effect "" of "a" must be`,
	} {
		require.ErrorContains(t, err, "node: Config."+want)
	}
	good.CallTimeout = -1
	_, err = node.New(good)
	require.ErrorContains(t, err, "node: Config.CallTimeout is negative")
}
