// Package guest_test runs the kubelet's agent where most users have theirs: with systemd and
// cgroup v2, on Debian's containerd. It runs in the guest of examples/tools/testbed/vm:
//
//	go run ./examples/tools/testbed/vm test -timeout 15m ./examples/kubelet/e2e/guest
//
// The test's own program is all there is: the tests, the agent that is killed, and what the
// containers run.
package guest_test
