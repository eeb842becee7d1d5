// Package run has the tools with which every package of this module owns its goroutines:
// signals, bounded waits, calls that may never return, guards against panics, joins with a
// deadline, and a heap for due times. It contains no logic of the packages that use it.
package run
