package csinodes_test

import (
	"context"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/csinodes"
	"github.com/podwright/podwright/examples/kubelet/csi"
)

// A registry of drivers whose node is described at the API server.
func Example() {
	build := func(client *apiserver.Client, node *atomic.Pointer[v1.Node]) (*csi.Registry, *csinodes.Manager, error) {
		manager, err := csinodes.New(csinodes.Config{Client: client, NodeName: "worker-1", Node: node.Load})
		if err != nil {
			return nil, nil, err
		}
		var registry *csi.Registry
		look := func(driver string) { manager.Look(driver, registry) }
		registry, err = csi.NewRegistry(csi.RegistryConfig{
			Folder: "/var/lib/kubelet/plugins_registry", OnReady: look, OnDeregistered: look,
		})
		return registry, manager, err
	}
	run := func(ctx context.Context, m *csinodes.Manager) error { return m.Run(ctx) }
	_, _ = build, run
}
