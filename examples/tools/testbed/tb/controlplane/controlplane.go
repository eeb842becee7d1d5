// Package controlplane is how a Go test uses the Kubernetes control plane that the
// testbed has started (testbed -controlplane, and -all for packages that import this
// one): a real etcd, API server, controller manager and scheduler.
//
//	func TestSomething(t *testing.T) {
//		cluster := controlplane.Of(t)
//		agent := start(t, cluster.NodeKubeconfig(t, "node-1", 0), tb.Runtimes(t)[0])
//		...
//		cluster.APIServer.Stop(t)
//		...
//		cluster.APIServer.Start(t)
//	}
//
// It is one control plane for the whole testbed, because a test that only wants an API
// server should not wait for one to start, and it belongs to one test binary at a time,
// as the runtimes do. So what a test says of package tb holds here: tests of one
// package that stop a component must not run in parallel with others; what was stopped,
// killed or paused is started again when the test ends, on the same port and with the
// same data; and objects are not cleaned up. Take namespaces and nodes of names of your
// own, and delete them.
//
// Outside of a testbed a test that calls Of is skipped. In one without a control plane,
// or where PODWRIGHT_REQUIRE_CRI is 1, it fails.
package controlplane

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podwright/podwright/examples/tools/internal/control"
	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

const (
	// timeout bounds one request; a start waits up to two minutes.
	timeout = 150 * time.Second
	// buildTimeout bounds a request that may build a program.
	buildTimeout = 30 * time.Minute
)

// Handle is the running control plane.
type Handle struct {
	// URL of the API server, https://127.0.0.1:PORT. It stays when the server is
	// started again. Kubeconfigs that this handle makes are for this URL: that of a
	// proxy, once it is set to it.
	URL string
	// CA is the file with the certificate that the API server's, and that of every
	// client, is signed by, as PEM; CAKey is the one with its key.
	CA, CAKey string
	// Certificate and Key are the files with what the API server serves with, for
	// 127.0.0.1 and localhost. A proxy may do so, too.
	Certificate, Key string
	// Kubeconfig is the file of a user who may do everything.
	Kubeconfig string

	Etcd, APIServer, ControllerManager, Scheduler Component

	socket string
}

// Component is one program of the control plane.
type Component struct{ name, socket string }

// Of returns the testbed's control plane. It waits while another test binary uses
// that, or the runtimes.
func Of(t testing.TB) Handle {
	t.Helper()
	tb.Runtimes(t) // skips, fails or waits
	dir := os.Getenv(env.ControlPlane)
	if dir == "" {
		t.Fatalf("%s is not set: the testbed runs without -controlplane", env.ControlPlane)
	}
	return at(t, filepath.Join(dir, "ctl.sock"))
}

func at(t testing.TB, socket string) Handle {
	t.Helper()
	h := Handle{
		Etcd: Component{"etcd", socket}, APIServer: Component{"kube-apiserver", socket},
		ControllerManager: Component{"kube-controller-manager", socket}, Scheduler: Component{"kube-scheduler", socket},
		socket: socket,
	}
	if err := json.Unmarshal(do(t, http.MethodGet, socket, "/", timeout), &h); err != nil {
		t.Fatalf("control plane: %v", err)
	}
	return h
}

// NodeKubeconfig returns the file of a kubeconfig with which a kubelet may be this
// node, and no other. Its certificate is valid for so long, a year for 0.
func (h Handle) NodeKubeconfig(t testing.TB, node string, valid time.Duration) string {
	t.Helper()
	return h.UserKubeconfig(t, "system:node:"+node, "system:nodes", valid)
}

// UserKubeconfig returns the file of a kubeconfig of any user, in a group unless
// that is empty. Its certificate is valid for so long, a year for 0.
func (h Handle) UserKubeconfig(t testing.TB, user, group string, valid time.Duration) string {
	t.Helper()
	query := url.Values{"user": {user}, "group": {group}, "server": {h.URL}}
	if valid != 0 {
		query.Set("valid", valid.String())
	}
	text := do(t, http.MethodGet, h.socket, "/kubeconfig?"+query.Encode(), timeout)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Program returns the path of kubectl, or of kubelet, the upstream one, which is
// built if need be: that takes minutes, once.
func (h Handle) Program(t testing.TB, name string) string {
	t.Helper()
	return string(do(t, http.MethodGet, h.socket, "/programs/"+name, buildTimeout))
}

// Stop ends the component with SIGTERM and waits for that. When the test ends, it
// is started again.
func (c Component) Stop(t testing.TB) { t.Helper(); c.disturb(t, "stop") }

// Kill ends the component with SIGKILL and waits for that. When the test ends, it
// is started again.
func (c Component) Kill(t testing.TB) { t.Helper(); c.disturb(t, "kill") }

// Pause stops the component with SIGSTOP: connections stay, nothing answers. When
// the test ends, it goes on.
func (c Component) Pause(t testing.TB) { t.Helper(); c.disturb(t, "pause") }

// Resume lets a paused component go on, and returns once it answers.
func (c Component) Resume(t testing.TB) { t.Helper(); c.order(t, "resume") }

// Start returns once the component answers. One that is paused goes on; one that
// runs is left as it is.
func (c Component) Start(t testing.TB) { t.Helper(); c.order(t, "start") }

func (c Component) disturb(t testing.TB, verb string) {
	t.Helper()
	t.Cleanup(func() { c.Start(t) })
	c.order(t, verb)
}

func (c Component) order(t testing.TB, verb string) {
	t.Helper()
	do(t, http.MethodPost, c.socket, "/"+c.name+"/"+verb, timeout)
}

func do(t testing.TB, method, socket, path string, timeout time.Duration) []byte {
	t.Helper()
	body, err := control.Do(context.WithoutCancel(t.Context()), method, socket, path, timeout)
	if err != nil {
		t.Fatalf("control plane: %s %s: %v", method, path, err)
	}
	return body
}
