// Package embedded is a container runtime for machines without one: cri/fake with
// containers as plain processes of the host. It is there for trying out and for
// tests. Processes isolate nothing and need no root, and all of them end with the
// agent, also when it is killed with SIGKILL: each command runs under a small
// supervisor, which is the agent's own executable started again. Therefore the
// main of a program that uses this package begins with
//
//	if embedded.RunSupervisor() {
//		return
//	}
//
// and so does the TestMain of such a test. New makes the runtime; HostProcess is
// the resolver of programs behind it, for a fake.Config of one's own. Linux only.
package embedded
