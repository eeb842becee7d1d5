// Package e2e_test runs the kubelet as its users do: as a process, with
// manifests in a folder, on real container runtimes:
//
//	go run ./examples/tools/testbed -- go test -race ./examples/kubelet/e2e/...
//
// Each test runs on both runtimes of the testbed at a time, with a kubelet and
// a node name of its own, removes its pods at the end and fails when the runtime,
// the root folder or the log folder still has something of them. What needs no
// runtime (the embedded one, wrong endpoints) runs without the testbed, too.
//
// Tests whose names end in Upstream or EqualUpstreams need the upstream kubelet as well. It
// changes cgroups and kernel settings, and they put them back:
//
//	GOWORK=off go build -C examples/tools/controlplane -o /tmp/kubelet ./kubelet
//	PODWRIGHT_UPSTREAM_KUBELET=/tmp/kubelet go run ./examples/tools/testbed -- \
//		go test -run Upstream ./examples/kubelet/e2e
package e2e_test
