package e2e_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

// build is the kubelet's program, with the race detector if the test has it.
var build = tb.Kubelet{Race: race}

// program returns the path of the kubelet's program. With -short it skips the test.
func program(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the kubelet as a process")
	}
	return build.Path(t)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(build.Tests(m)) }

// poll is the period of checks of a condition.
const poll = 20 * time.Millisecond

// shortestWait is the minimum timeout of wait, for loaded machines. It is below one minute, so that
// a periodic resync or collection cannot satisfy a condition.
const shortestWait = 45 * time.Second

// wait polls cond until it returns nil. It fails the test with cond's last error after the timeout,
// at least shortestWait.
func wait(t testing.TB, timeout time.Duration, goal string, cond func() error) {
	t.Helper()
	timeout = max(timeout, shortestWait)
	begin := time.Now()
	deadline := begin.Add(timeout)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var last error
	for {
		err := cond()
		if err == nil {
			if took := time.Since(begin); took > 5*time.Second {
				t.Logf("%s: took %s; before: %v", goal, took, last)
			}
			return
		}
		last = err
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", goal, timeout, err)
		}
		<-tick.C
	}
}

// consistently polls cond for a duration and fails the test at its first error.
func consistently(t testing.TB, d time.Duration, rule string, cond func() error) {
	t.Helper()
	deadline := time.Now().Add(d)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		if err := cond(); err != nil {
			t.Fatalf("%s: did not hold for %s: %v", rule, d, err)
		}
		<-tick.C
	}
}
