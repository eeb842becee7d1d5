// Package tb is how a Go test uses the testbed around it: which runtimes there
// are, which images they have, and how to end, pause and start a runtime.
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
// Outside of a testbed such a test is skipped. Where PODWRIGHT_REQUIRE_CRI is
// 1 it fails instead, so that a run which is meant to cover the runtimes cannot
// pass without them.
//
// The runtimes belong to one test binary at a time, from its first call of
// Runtimes until it exits: what go test ./... starts beside it waits, and that
// wait counts against its -timeout. Tests of one package share the runtimes, so
// those which stop a runtime, or look after every pod on it, must not run in
// parallel with others.
//
// A runtime that a test stopped, killed or paused is started again when that
// test ends. Pods are not cleaned up between tests: that is the test's duty,
// the testbed does it at the end only.
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

// controlTimeout bounds one request; a start waits up to a minute for CRI.
const controlTimeout = 90 * time.Second

// Runtime is a running container runtime.
type Runtime struct {
	// Name fits a subtest: containerd-v1 or containerd-v2.
	Name string
	// Endpoint is its CRI endpoint, with the unix:// scheme.
	Endpoint string

	key string // in paths of the control endpoint
}

// ImageNames are full names that every runtime has already pulled.
type ImageNames struct {
	Registry  string // host:port, plain http
	Pause     string // sandbox image
	Busybox   string // shell and applets
	Testprog  string // testprog:v1
	Testprog2 string // testprog:v2
}

// Runtimes returns the testbed's runtimes, or skips the test where there is
// no testbed. It waits while another test binary uses them.
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

// claim takes a lock that is the process's, not the caller's: to take it again
// succeeds, and it ends with the process. It would also end with any
// descriptor of the file, so these are never closed.
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

// Images returns the names of the test images, or skips the test where there
// is no testbed.
func Images(t testing.TB) ImageNames {
	t.Helper()
	v := need(t, env.Registry, env.ImagePause, env.ImageBusybox, env.ImageTestprog, env.ImageTestprog2)
	return ImageNames{Registry: v[0], Pause: v[1], Busybox: v[2], Testprog: v[3], Testprog2: v[4]}
}

// need returns the values of the named variables.
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
	what := "needs the testbed (go run ./examples/tools/testbed -- go test ...): not set: " + strings.Join(missing, ", ")
	if getenv(env.RequireCRI) == "1" {
		return nil, fail, env.RequireCRI + "=1, but not set: " + strings.Join(missing, ", ")
	}
	return nil, skip, what
}

// Stop ends the runtime with SIGTERM and waits for that; its pods live on.
// When the test ends, the runtime is started again.
func (rt Runtime) Stop(t testing.TB) { t.Helper(); rt.disturb(t, "stop") }

// Kill ends the runtime with SIGKILL and waits for that; its pods live on.
// When the test ends, the runtime is started again.
func (rt Runtime) Kill(t testing.TB) { t.Helper(); rt.disturb(t, "kill") }

// Pause stops the runtime with SIGSTOP: connections stay, nothing answers.
// When the test ends, the runtime goes on.
func (rt Runtime) Pause(t testing.TB) { t.Helper(); rt.disturb(t, "pause") }

// Resume lets a paused runtime go on.
func (rt Runtime) Resume(t testing.TB) { t.Helper(); rt.control(t, "resume") }

// Start returns once the runtime answers. One that is paused goes on; one that
// runs is left as it is.
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
