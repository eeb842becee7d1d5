// Package stuck frees containers whose start was interrupted by the death of the kubelet.
package stuck

import (
	"strings"
	"testing"
	"time"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

// startingTimeout exceeds the time limit of containerd's clean-up after an interrupted start.
const startingTimeout = 20 * time.Second

// Starts detects, from the log of one kubelet, containers that a runtime cannot remove.
type Starts struct {
	// Restarts is the number of restarts of the runtime.
	Restarts int

	read     int // bytes of the log
	starting time.Time
}

// Skip ignores the log before this point.
func (s *Starts) Skip(log string) { s.read = len(log) }

// Free restarts the runtime if the new lines of the log show that it cannot remove a container:
// "cannot delete running task", or "in starting state" for longer than startingTimeout. containerd
// 1.6 and 2.2 keep a task whose client died in StartContainer until containerd restarts; no CRI
// call helps. The kubelet logs the failure and retries; after the restart the retry succeeds.
func (s *Starts) Free(t testing.TB, log string, rt tb.Runtime) (restarted bool) {
	t.Helper()
	text := log[s.read:]
	s.read = len(log)
	is := strings.Contains(text, "cannot delete running task")
	if strings.Contains(text, "in starting state") {
		if s.starting.IsZero() {
			s.starting = time.Now()
		}
		is = is || time.Since(s.starting) > startingTimeout
	}
	if !is {
		return false
	}
	t.Log("restart the runtime: it cannot remove a container whose start was interrupted")
	rt.Stop(t)
	rt.Start(t)
	s.starting = time.Time{}
	s.Restarts++
	return true
}
