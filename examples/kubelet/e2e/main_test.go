package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// build is the kubelet's binary, built once per run and removed with it.
var build = &binary{}

type binary struct {
	once sync.Once
	dir  string
	err  error
}

// path builds the kubelet at the first call, with the race detector if the test
// has it.
func (b *binary) path(t testing.TB) string {
	t.Helper()
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "kubelet-e2e-"); b.err != nil {
			return
		}
		// Users other than the one that builds it run it, too.
		if b.err = os.Chmod(b.dir, 0o755); b.err != nil {
			return
		}
		args := append([]string{"build", "-o", filepath.Join(b.dir, "kubelet")}, raceFlags...)
		if out, err := exec.Command("go", append(args, "..")...).CombinedOutput(); err != nil {
			b.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if b.err != nil {
		t.Fatalf("build the kubelet: %v", b.err)
	}
	return filepath.Join(b.dir, "kubelet")
}

// testsWithBinary removes the binary after the tests, and tells once more what failed.
type testsWithBinary struct{ *testing.M }

func (m testsWithBinary) Run() int {
	code := summarized(m.M.Run)
	if err := os.RemoveAll(build.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(testsWithBinary{m}) }

// poll is how often a condition is looked at.
const poll = 20 * time.Millisecond

// shortestWait is how long a condition is waited for at least, on a machine that may have
// a lot to do: less than what the minute's resync or collection would be taken for.
const shortestWait = 45 * time.Second

// wait looks until cond returns nil, and fails the test with its last error when
// that takes longer than the timeout, or than shortestWait where that is longer.
func wait(t testing.TB, timeout time.Duration, what string, cond func() error) {
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
				t.Logf("%s: took %s; before: %v", what, took, last)
			}
			return
		}
		last = err
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, timeout, err)
		}
		<-tick.C
	}
}

// hold looks for a duration and fails the test as soon as cond returns an error.
func hold(t testing.TB, d time.Duration, what string, cond func() error) {
	t.Helper()
	deadline := time.Now().Add(d)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		if err := cond(); err != nil {
			t.Fatalf("%s: did not hold for %s: %v", what, d, err)
		}
		<-tick.C
	}
}
