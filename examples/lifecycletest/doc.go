// Package lifecycletest shows how to unit-test the life of a pod: its test runs one
// that crashes all the time, on a runtime in memory and in virtual time, and looks
// at when it was started again. The smallest agent that does so stands beside it.
package lifecycletest
