// Package stuck frees containers whose start was cut off by the death of the kubelet.
package stuck

import (
	"strings"
	"testing"
	"time"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

// patience is longer than containerd allows its clean-up after a start that was cut off.
const patience = 20 * time.Second

// Starts finds containers that a runtime cannot remove, by the log of one kubelet.
type Starts struct {
	// Restarts is the number of restarts of the runtime.
	Restarts int

	read     int // bytes of the log
	starting time.Time
}

// Skip ignores the log up to here.
func (s *Starts) Skip(log string) { s.read = len(log) }

// Free restarts the runtime if the new lines of the log show that it cannot remove a
// container: "cannot delete running task", or for long "in starting state". containerd 1.6
// and 2.2 keep a task whose client died in StartContainer until they are started again; no
// call of the CRI helps. The kubelet logs the failure and retries, which then succeeds.
func (s *Starts) Free(t testing.TB, log string, rt tb.Runtime) (restarted bool) {
	t.Helper()
	text := log[s.read:]
	s.read = len(log)
	is := strings.Contains(text, "cannot delete running task")
	if strings.Contains(text, "in starting state") {
		if s.starting.IsZero() {
			s.starting = time.Now()
		}
		is = is || time.Since(s.starting) > patience
	}
	if !is {
		return false
	}
	t.Log("the runtime is restarted: it cannot remove a container whose start was cut off")
	rt.Stop(t)
	rt.Start(t)
	s.starting = time.Time{}
	s.Restarts++
	return true
}
