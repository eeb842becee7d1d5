// Package exec executes exec probes: a container passes if a command in it exits with code 0
// within the probe's timeout.
//
//	prober, err := exec.New(exec.Config{Runtime: runtime}) // a cri.RuntimeService, for example
//	manager, err := probe.New(probe.Config{
//		Probers: map[probe.Handler]probe.Prober{probe.Exec: prober},
//		...
//	})
//
// A Prober is safe for concurrent use.
//
// # Command
//
// References to variables of the container, $(NAME), are expanded if env of the spec has a
// literal value for them. Other references stay as they are. No shell is involved. Each
// execution starts a process in the container; for servers, httpget, tcpsocket and grpc cost
// less.
//
// # Timeout
//
// The runtime kills a command that exceeds the probe's timeout; otherwise processes would
// accumulate in the container. The CRI supports only whole seconds, so the timeout is rounded up.
// An execution may therefore exceed the deadline of its context by the rounding and by
// Config.Grace, the time of the runtime for the kill and its response. It may take as long again
// if the runtime does not respond. A cancelled context ends the wait at once, but not the
// command.
//
// # Verdicts
//
// A command that fails or exceeds the timeout is a failure (KEP-1972). Up to 10 KiB of its
// output are in the result and in a failure's event, which many users can read. The exit code
// replaces an empty output. All other problems are errors without a verdict about the container:
// the runtime is unreachable or exceeds a timeout of its own, the container does not exist, the
// command cannot be started.
//
// If the runtime does not respond in time, there are three possible reasons: the command has left
// a process behind that keeps its output open, the runtime hangs, or the runtime is overloaded
// and has not started the command. The CRI does not report the start of a command. So the Prober
// requests the execution of a nonexistent command in the same container. The probe fails only if
// the runtime responds to that request and Config.Alive returns nil; without Config.Alive the
// result is an error. As a consequence, an exec probe does not detect a container in which no
// process can start any longer, such as a frozen one.
//
// Runnable example: Example in example_test.go.
package exec
