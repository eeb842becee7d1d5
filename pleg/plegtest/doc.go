// Package plegtest tests and measures runtimes for package pleg. It has an in-memory runtime, a
// conformance suite for runtimes, and a measurement.
//
// # In-memory runtime
//
// A Runtime has the pods that a test sets. Its calls can be slow, hang or fail, for all pods or
// for one:
//
//	rt := &plegtest.Runtime{}
//	rt.Set(plegtest.Pod("web", plegtest.Running("nginx-0")))
//	rt.FailPod("web", plegtest.Fault{Hang: true})
//
// WithEvents returns the same runtime with an event stream. Streams can break, fail to open, and
// begin with a backlog. Deliver loses, duplicates and delays events.
//
// A Runtime is safe for concurrent use. It uses clocks only for waits, so it works in a
// testing/synctest bubble if it is used in one bubble only.
//
// # Conformance suite
//
// Run tests any pleg.Runtime, and its pleg.EventStream if it has one, against the rules of
// package pleg. It changes pods through an implementation of Pods:
//
//	func TestRuntime(t *testing.T) {
//		plegtest.Run(t, plegtest.Config{Start: func(t *testing.T) plegtest.Subject {
//			fleet := newFleet(t)
//			return plegtest.Subject{Runtime: fleet, Pods: fleet}
//		}})
//	}
//
// # Measurement
//
// Bench measures the time from a change to its event and to an Observe that shows it, and the
// cost of a PLEG at rest. It works with any runtime: an in-memory one with latency, in a bubble,
// or one behind a CRI socket (package cri/pods/observe makes a pleg.Runtime of that).
//
// Tests of code that only reads statuses need no Runtime: Pod, Running and Exited make values.
//
// See ExampleRuntime, ExampleRun and ExampleBench in example_test.go.
package plegtest
