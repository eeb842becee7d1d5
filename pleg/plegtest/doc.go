// Package plegtest tests and measures what stands on both sides of package pleg: a
// runtime in memory, a conformance suite for runtimes, and a measurement.
//
// # A runtime in memory
//
// A Runtime holds the pods that a test gives it. Calls can be made slow, hang or
// fail, for all pods or for one:
//
//	rt := &plegtest.Runtime{}
//	rt.Set(plegtest.Pod("web", plegtest.Running("nginx-0")))
//	rt.FailPod("web", plegtest.Fault{Hang: true})
//
// WithEvents returns the same runtime with an event stream that can break and
// refuse to open, and begin with a backlog; Deliver loses, doubles and delays
// events.
//
// Nothing here reads a clock except to wait, so it works in a testing/synctest
// bubble, provided that the Runtime is used in one bubble only.
//
// # Is my runtime one?
//
// Run holds any pleg.Runtime, and its pleg.EventStream if it has one, to the rules
// of package pleg. It needs something that makes things happen, Pods:
//
//	func TestRuntime(t *testing.T) {
//		plegtest.Run(t, plegtest.Config{Start: func(t *testing.T) plegtest.Subject {
//			fleet := newFleet(t)
//			return plegtest.Subject{Runtime: fleet, Pods: fleet}
//		}})
//	}
//
// # How slow is it?
//
// Bench takes the time from a change to the event about it and to an Observe that
// shows it, and what the PLEG costs at rest, with any runtime: one in memory with
// latency, in a bubble, or one behind a CRI socket (package pods makes a
// pleg.Runtime of that).
//
// Examples that run: ExampleRuntime, ExampleRun and ExampleBench in example_test.go.
package plegtest
