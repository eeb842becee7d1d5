// Package run holds what every shell of this module needs to own its goroutines:
// waking, waits with a bound, calls that may never return, guards against panics, joins
// with a deadline, and a heap of what is due. What is decided there is the rooms' own.
package run
