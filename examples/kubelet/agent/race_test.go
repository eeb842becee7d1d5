//go:build race

package agent

import "runtime"

// The race detector crashes if two processors fire timers of the same bubble at once
// (golang/go#78156), and an agent has enough timers for this. The tests get one processor.
func init() { runtime.GOMAXPROCS(1) }
