// Package e2e_test tests the kubelet as a process, with manifests in a folder, on real container
// runtimes:
//
//	go run ./examples/tools/testbed -- go test -race ./examples/kubelet/e2e/...
//
// Each test runs on one runtime of the testbed or on several in parallel (see tb.Turns), with a
// separate kubelet and node name on each. At its end it removes its pods and fails if the runtime,
// the root folder or the log folder still contains remains of them. Tests without a runtime
// (embedded runtime, wrong endpoints) also run without the testbed.
//
// Tests whose names end in Upstream or EqualUpstreams also need the upstream kubelet. It changes
// cgroups and kernel settings; the tests restore them:
//
//	GOWORK=off go build -C examples/tools/controlplane -o /tmp/kubelet ./kubelet
//	PODWRIGHT_UPSTREAM_KUBELET=/tmp/kubelet go run ./examples/tools/testbed -- \
//		go test -run Upstream ./examples/kubelet/e2e
package e2e_test
