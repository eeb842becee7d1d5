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
// and so does the TestMain of such a test. Linux only.
//
// # Containers
//
// A supervisor starts each command in a session and process group of its own, as the
// user of the agent, with a terminal if the container has one. The environment is the
// container's; PATH, HOME and HOSTNAME are added where they are not set. Commands
// share the host's network, files and process IDs. Mounts, resources and the security
// context have no effect.
//
// Signals go to the process group. SIGKILL goes to all descendants of the command,
// also to those in other groups and sessions. The same happens to processes that are
// left when the command exits, and at the end of the agent. Only processes that have
// changed to another user can escape.
package embedded
