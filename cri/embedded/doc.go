// Package embedded is a container runtime for machines without one, for trials and tests. It is
// cri/fake with containers as plain host processes: no isolation, no root. All processes end with
// the agent, also on SIGKILL, because each command runs under a small supervisor: a second process
// of the agent's executable. Therefore main of a program that uses this package, and TestMain of
// such a test, begins with
//
//	if embedded.RunSupervisor() {
//		return
//	}
//
// A Runtime is safe for concurrent use. Linux only.
//
// # Containers
//
// A supervisor starts each command in its own session and process group, as the agent's user, with
// a terminal if the container has one. The environment is the container's; PATH, HOME and HOSTNAME
// are added if unset. Commands share the host's network, files and process IDs. Mounts, resources
// and the security context have no effect.
//
// Signals are sent to the process group. SIGKILL is sent to all descendants of the command, also
// in other groups and sessions. The same happens to the remaining processes when the command
// exits, and when the agent ends. Only processes that changed to another user can escape.
//
// Unstable: it is for trials and tests, and its Config may change.
package embedded
