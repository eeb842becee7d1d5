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
	for want, change := range map[string]func(*node.Config){
		"node: Config.Name is required":              func(c *node.Config) { c.Name = "" },
		"node: Config.Nodes is required":             func(c *node.Config) { c.Nodes = (*nodetest.API)(nil) },
		"node: Config.Leases is required":            func(c *node.Config) { c.Leases = nil },
		"node: Config.Facts is required":             func(c *node.Config) { c.Facts = nil },
		"Config.Update is negative":                  func(c *node.Config) { c.Update = -1 },
		"Config.Report is negative":                  func(c *node.Config) { c.Report = -1 },
		"Config.LeaseDuration is negative":           func(c *node.Config) { c.LeaseDuration = -1 },
		"Config.CallTimeout is negative":             func(c *node.Config) { c.CallTimeout = -1 },
		"Config.LeaseDuration: 1.5s is not whole":    func(c *node.Config) { c.LeaseDuration = 1500 * time.Millisecond },
		`Config.Labels: --node-labels: key "a b"`:    func(c *node.Config) { c.Labels = map[string]string{"a b": ""} },
		`Config.Taints: effect "" of "a" is none of`: func(c *node.Config) { c.Taints = []v1.Taint{{Key: "a"}} },
	} {
		bad := good
		change(&bad)
		_, err := node.New(bad)
		require.ErrorContains(t, err, want)
	}
}
