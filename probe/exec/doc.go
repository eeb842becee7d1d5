// Package exec executes exec probes: a container passes when a command that is run
// in it ends with exit code 0 within the probe's timeout.
//
//	prober, err := exec.New(exec.Config{Runtime: runtime}) // a cri.RuntimeService, for example
//	manager, err := probe.New(probe.Config{
//		Probers: map[probe.Handler]probe.Prober{probe.Exec: prober},
//		...
//	})
//
// # The command
//
// References to variables of the container, $(NAME), are replaced where the spec
// says the value: those of env with a literal value. References to others stay as
// they are. No shell is involved.
//
// # Time
//
// It is the runtime that ends a command which takes too long, and kills it; else
// processes would pile up in the container. It is told the probe's timeout, rounded
// up to whole seconds, which is all that the CRI knows. So an execution may outlast
// the deadline of its context, by that and by Config.Grace for the runtime to kill
// and to answer, and by as much again when the runtime is silent for longer.
// Cancelling the context ends the wait at once, not the command.
//
// # Verdicts
//
// A command that fails or runs out of time is a failure (KEP-1972). Everything else
// that goes wrong is an error, and says nothing about the container: the runtime
// cannot be reached or runs out of a time of its own, the container is gone, the
// command cannot be started.
//
// When the runtime is silent for longer than it may, either the command has left a
// process behind that keeps its output open, or the runtime hangs, or it has so much to
// do that it has not come to the command. The CRI does not tell when a command has
// begun. So the runtime is asked to run one that does not exist, in the same container:
// only if it refuses that, and Config.Alive returns nil, the probe has failed. A
// container in which nothing can be started any more, such as a frozen one, is so not
// seen by an exec probe.
//
// An example that runs: Example in example_test.go.
package exec
