// Package lifecycletest is an example of a third-party agent without containers: each pod is a Go
// function. podworkers handles the lifecycle of the pods; the agent is a PodSyncer with three
// methods. The tests show how to unit-test a syncer with podworkerstest: ten minutes of a crash
// loop in virtual time, failing calls, scripts, and the standard lives of pods. bugs_test.go plants
// nine bugs in the agent and expects the rule that reports each.
package lifecycletest
