// Package status turns what was observed of a pod, and what is wanted of it,
// into the v1.PodStatus that the API shows: phase, conditions, container
// statuses with waiting reasons and exit codes, addresses and quality of
// service.
//
// Compute is a pure function: no clock, no I/O, nothing kept between calls.
// Everything it needs comes in an Input; it changes nothing of it and the result
// shares no memory with it.
//
//	result, err := status.Compute(status.Input{
//		Pod:      pod,
//		Observed: observed, // from pleg
//		Previous: last,     // the result of the call before
//		Now:      time.Now(),
//	})
//
// Reject returns the status of a pod that this node refuses to run.
//
// # What is remembered
//
// The runtime forgets: exited containers are removed, a node reboots, an agent
// starts anew. The previous status is therefore an input like any other. An exit
// code that was once seen stays; a container that vanished while it ran shows
// exit code 137 with reason ContainerStatusUnknown, since nobody knows the real
// one; a restart count never shrinks; a terminal phase is never left; a
// condition keeps its transition time until its status changes. Computing again
// from the same input, with the first result as the previous status, gives the
// same result.
//
// Nobody having looked (Input.Observed is nil) is not the same as nothing being
// there: containers, phase and addresses then stay as the previous status has
// them.
//
// # The caller's duties
//
// Observed has to be newer than what the caller last did to the pod, else the
// result describes the past. Terminal may be set only once every container has
// stopped for good. The result is to be kept as the next Previous: by the caller, or
// by package writer.
//
// # Keeping and writing
//
// A Sink is where statuses are written to: an API server, a file (package filesink),
// an endpoint, or a function that wants to be told (SinkFunc). Package writer writes
// the newest status of every pod to any number of them. Apply implements the Patch of a
// Sink that keeps statuses as a whole.
// Package statustest tests it.
//
// # What it does not do
//
// Compute does not truncate messages, round times or merge the writes of others: package
// writer does. Conditions about resizing are passed on, not decided.
//
// Examples that run: ExampleCompute and ExampleApply in example_test.go.
package status
