package streams_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/cri/embedded"
)

// TestMain is also the main of supervisors of host processes.
func TestMain(m *testing.M) {
	if embedded.RunSupervisor() {
		return
	}
	// Supervisors with the race detector would wait a second at exit.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
