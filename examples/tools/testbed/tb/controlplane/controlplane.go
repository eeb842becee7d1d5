// Package controlplane gives Go tests access to the testbed's Kubernetes control plane: a real
// etcd, API server, controller manager and scheduler. The testbed starts it with -controlplane,
// and with -all for packages that import this one.
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
// The testbed has one control plane, so that a test need not wait for the start of its own. It
// belongs to one test binary at a time, as the runtimes do, and has the rules of package tb. Tests
// of one package that stop a component must not run in parallel with others. When a test ends, a
// component that it stopped, killed or paused starts again, on the same port and with the same
// data. Objects are not cleaned up: use unique names of namespaces and nodes, and delete them.
//
// Outside of a testbed Of skips the test. It fails in a testbed without a control plane, and where
// PODWRIGHT_REQUIRE_CRI is 1.
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
	// timeout bounds one request. A start waits up to two minutes.
	timeout = 150 * time.Second
	// buildTimeout bounds a request that may build a program.
	buildTimeout = 30 * time.Minute
)

// Handle gives access to the running control plane.
type Handle struct {
	// URL is the URL of the API server, https://127.0.0.1:PORT. It stays the same after a restart.
	// The kubeconfigs of this handle contain it. A test may set it to the URL of a proxy.
	URL string
	// CA is the PEM file with the certificate of the authority that signs the certificates of the
	// API server and of all clients. CAKey is the file with its key.
	CA, CAKey string
	// Certificate and Key are the files of the API server's serving certificate, for 127.0.0.1 and
	// localhost. A proxy may serve with it, too.
	Certificate, Key string
	// Kubeconfig is the administrator's kubeconfig file.
	Kubeconfig string

	Etcd, APIServer, ControllerManager, Scheduler Component

	socket string
}

// Component is one program of the control plane.
type Component struct{ name, socket string }

// Of returns the testbed's control plane. It waits while another test binary uses the control
// plane or the runtimes.
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

// NodeKubeconfig returns the file of a kubeconfig for the kubelet of this node. Its certificate is
// valid for the given time, 0 means a year.
func (h Handle) NodeKubeconfig(t testing.TB, node string, valid time.Duration) string {
	t.Helper()
	return h.UserKubeconfig(t, "system:node:"+node, "system:nodes", valid)
}

// UserKubeconfig returns the file of a kubeconfig for a user, in a group unless group is empty.
// Its certificate is valid for the given time, 0 means a year.
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

// Program returns the path of kubectl, metrics-server or kubelet, the upstream one. The first call
// may build the program, which takes minutes.
func (h Handle) Program(t testing.TB, name string) string {
	t.Helper()
	return string(do(t, http.MethodGet, h.socket, "/programs/"+name, buildTimeout))
}

// Stop stops the component with SIGTERM and waits until it has ended. It starts again when the
// test ends.
func (c Component) Stop(t testing.TB) { t.Helper(); c.disturb(t, "stop") }

// Kill ends the component with SIGKILL and waits until it has ended. It starts again when the test
// ends.
func (c Component) Kill(t testing.TB) { t.Helper(); c.disturb(t, "kill") }

// Pause suspends the component with SIGSTOP: connections stay open, requests hang. It continues
// when the test ends.
func (c Component) Pause(t testing.TB) { t.Helper(); c.disturb(t, "pause") }

// Resume continues a paused component and returns once it responds.
func (c Component) Resume(t testing.TB) { t.Helper(); c.order(t, "resume") }

// Start starts or continues the component and returns once it responds. A running component stays
// as it is.
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
