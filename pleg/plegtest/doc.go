// Package plegtest is a runtime in memory for package pleg: for tests of what is
// built on pleg, and for trying it out without a runtime.
//
// A Runtime holds the pods that a test gives it. Calls can be made slow, hang or
// fail, for all pods or for one:
//
//	rt := &plegtest.Runtime{}
//	rt.Set(plegtest.Pod("web", plegtest.Running("nginx-0")))
//	rt.FailPod("web", plegtest.Fault{Hang: true})
//
// WithEvents returns the same runtime with an event stream that can lose events,
// break and refuse to open.
//
// Nothing here reads a clock except to wait out a Fault.Latency, so it works in
// a testing/synctest bubble, provided that the Runtime is used in one bubble only.
package plegtest
