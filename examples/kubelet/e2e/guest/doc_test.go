// Package guest_test tests the kubelet's agent in the most common environment: systemd and cgroup
// v2, with Debian's containerd. It runs in the guest of examples/tools/testbed/vm:
//
//	go run ./examples/tools/testbed/vm test -timeout 15m ./examples/kubelet/e2e/guest
//
// The test's program contains all parts: the tests, the agent that is killed, and the programs of
// the containers.
package guest_test
