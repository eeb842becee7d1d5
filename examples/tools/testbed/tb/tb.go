// Package tb gives Go tests access to the testbed around them: its runtimes and images, and calls
// that stop, pause and start a runtime.
//
//	func TestSomething(t *testing.T) {
//		images := tb.Images(t)
//		for _, rt := range tb.Runtimes(t) {
//			t.Run(rt.Name, func(t *testing.T) {
//				client := dial(t, rt.Endpoint)
//				...
//				rt.Kill(t)
//				rt.Start(t)
//			})
//		}
//	}
//
// Outside of a testbed such a test is skipped. If PODWRIGHT_REQUIRE_CRI is 1 it fails instead, so
// that a run of the runtime tests cannot pass without runtimes.
//
// One test binary at a time owns the runtimes, from its first call of Runtimes until it exits.
// Other binaries of go test ./... wait in Runtimes, and the wait counts against their -timeout.
// The tests of one package share the runtimes. A test that stops a runtime, or that examines all
// pods on it, must not run in parallel with others.
//
// When a test ends, the testbed starts a runtime again that the test stopped, killed or paused.
// Tests clean up their own pods; the testbed removes pods only at the end of its run.
package tb

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/tools/internal/control"
	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
)

// controlTimeout bounds one request. A start waits up to a minute for CRI.
const controlTimeout = 90 * time.Second

// Runtime is a running container runtime.
type Runtime struct {
	// Name is containerd-v1 or containerd-v2. It is usable as the name of a subtest.
	Name string
	// Endpoint is the CRI endpoint, with the unix:// scheme.
	Endpoint string

	key string // in paths of the control endpoint
}

// ImageNames are the registry and the full names of images that every runtime has pulled.
type ImageNames struct {
	Registry  string // host:port, plain http
	Pause     string // sandbox image
	Busybox   string // shell and applets
	Testprog  string // testprog:v1
	Testprog2 string // testprog:v2
}

// Runtimes returns the testbed's runtimes. It skips the test outside of a testbed, and waits while
// another test binary uses the runtimes.
func Runtimes(t testing.TB) []Runtime {
	t.Helper()
	v := need(t, env.CRIV1, env.CRIV2, env.Ctl)
	if err := claim(filepath.Join(filepath.Dir(v[2]), "tests.lock")); err != nil {
		t.Fatalf("claim the runtimes: %v", err)
	}
	return []Runtime{
		{Name: "containerd-v1", Endpoint: v[0], key: "v1"},
		{Name: "containerd-v2", Endpoint: v[1], key: "v2"},
	}
}

// claim takes a lock that belongs to the process: a second call succeeds, and the lock ends with
// the process. It would also end if any descriptor of the file were closed, so claim leaves them
// open.
func claim(path string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	for {
		err := unix.FcntlFlock(uintptr(fd), unix.F_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK})
		if err != unix.EINTR {
			return err
		}
	}
}

// Images returns the names of the test images. It skips the test outside of a testbed.
func Images(t testing.TB) ImageNames {
	t.Helper()
	v := need(t, env.Registry, env.ImagePause, env.ImageBusybox, env.ImageTestprog, env.ImageTestprog2)
	return ImageNames{Registry: v[0], Pause: v[1], Busybox: v[2], Testprog: v[3], Testprog2: v[4]}
}

// need returns the values of the variables. If one is missing it skips the test, or fails it where
// PODWRIGHT_REQUIRE_CRI is 1.
func need(t testing.TB, names ...string) []string {
	t.Helper()
	values, verdict, why := lookup(os.Getenv, names)
	switch verdict {
	case skip:
		t.Skip(why)
	case fail:
		t.Fatal(why)
	}
	return values
}

type verdict int

const (
	use verdict = iota
	skip
	fail
)

func lookup(getenv func(string) string, names []string) ([]string, verdict, string) {
	var values, missing []string
	for _, name := range names {
		value := getenv(name)
		if value == "" {
			missing = append(missing, name)
		}
		values = append(values, value)
	}
	if len(missing) == 0 {
		return values, use, ""
	}
	reason := "needs the testbed (go run ./examples/tools/testbed -- go test ...): not set: " + strings.Join(missing, ", ")
	if getenv(env.RequireCRI) == "1" {
		return nil, fail, env.RequireCRI + "=1, but not set: " + strings.Join(missing, ", ")
	}
	return nil, skip, reason
}

// Stop stops the runtime with SIGTERM and waits until it has ended. Its pods keep running. The
// runtime starts again when the test ends.
func (rt Runtime) Stop(t testing.TB) { t.Helper(); rt.disturb(t, "stop") }

// Kill ends the runtime with SIGKILL and waits until it has ended. Its pods keep running. The
// runtime starts again when the test ends.
func (rt Runtime) Kill(t testing.TB) { t.Helper(); rt.disturb(t, "kill") }

// Pause suspends the runtime with SIGSTOP: connections stay open, requests hang. The runtime
// continues when the test ends.
func (rt Runtime) Pause(t testing.TB) { t.Helper(); rt.disturb(t, "pause") }

// Resume continues a paused runtime.
func (rt Runtime) Resume(t testing.TB) { t.Helper(); rt.control(t, "resume") }

// Start starts or continues the runtime and returns once CRI responds. A running runtime stays as
// it is.
func (rt Runtime) Start(t testing.TB) { t.Helper(); rt.control(t, "start") }

func (rt Runtime) disturb(t testing.TB, verb string) {
	t.Helper()
	t.Cleanup(func() { rt.Start(t) })
	rt.control(t, verb)
}

func (rt Runtime) control(t testing.TB, verb string) {
	t.Helper()
	socket := need(t, env.Ctl)[0]
	if _, err := control.Do(context.WithoutCancel(t.Context()), http.MethodPost, socket, "/"+rt.key+"/"+verb, controlTimeout); err != nil {
		t.Fatalf("%s: %s: %v", rt.Name, verb, err)
	}
}
