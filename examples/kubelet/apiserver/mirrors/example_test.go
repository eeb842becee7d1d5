package mirrors_test

import (
	"context"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/mirrors"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop"
)

// A syncer that has the mirrors of static pods kept.
func Example() {
	build := func(client *apiserver.Client, node *atomic.Pointer[v1.Node]) (*mirrors.Manager, func(podworkers.Work), []syncloop.Cleaner, error) {
		manager, err := mirrors.New(mirrors.Config{Client: client, Node: node.Load})
		if err != nil {
			return nil, nil, nil, err
		}
		syncPod := func(w podworkers.Work) { manager.Sync(w.Pod, w.MirrorPod) } // then the pod itself
		return manager, syncPod, []syncloop.Cleaner{manager.Cleaner()}, nil
	}
	run := func(ctx context.Context, m *mirrors.Manager) error { return m.Run(ctx) }
	_, _ = build, run
}
