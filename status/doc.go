// Package status computes the v1.PodStatus of a pod from its spec and its observed state: phase,
// conditions, container statuses with waiting reasons and exit codes, addresses and QoS class.
//
//	result, err := status.Compute(status.Input{
//		Pod:      pod,
//		Observed: observed, // from pleg
//		Previous: last,     // the previous result
//		Now:      time.Now(),
//	})
//
// Compute is a pure function: without a clock, I/O or memory between calls. It does not change
// its Input, and the result shares no memory with it. It is safe for concurrent use. Reject
// returns the status of a rejected pod. The With... functions return a changed copy of a status,
// which shares the rest of its memory.
//
// # State across calls
//
// The runtime forgets: exited containers are removed, a node reboots, an agent restarts.
// Therefore the previous status is an input. A seen exit code stays. A container that disappeared
// while it ran gets exit code 137 and reason ContainerStatusUnknown, because its real exit code
// is unknown. A restart count never decreases. A terminal phase is final, except for the phase that
// Input.Override sets before the containers have stopped. A condition keeps its transition time
// until its status changes. A second call with the same input, and the first result as the previous
// status, returns the same result.
//
// A nil Input.Observed means unknown, not empty: containers, phase and addresses stay as in the
// previous status.
//
// # The caller's duties
//
// Observed must be newer than the caller's last action on the pod; otherwise the result describes
// the past. Terminal may be set only after every container has stopped for good. The caller, or
// package writer, keeps the result as the next Previous.
//
// # Writing statuses
//
// A Sink is a destination of statuses: an API server, a file (package filesink), an endpoint, or
// a function (SinkFunc). Package writer writes the newest status of every pod to any number of
// sinks. Patched implements the Patch of a Sink that stores whole statuses. Package statustest
// tests sinks.
//
// # Limits
//
// Compute does not truncate messages, round times or merge writes of other components; package
// writer does. It keeps the conditions about resizes until the pod has ended; the With... functions
// change them. An agent whose statuses come from another system needs only package writer.
//
// Runnable examples: ExampleCompute and ExamplePatched in example_test.go.
package status
