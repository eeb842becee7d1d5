package cluster_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// kube-controller-manager dates its certificates back by five minutes, and accepts any
// --cluster-signing-duration, but no expirationSeconds below ten minutes. So a kubelet renews a
// certificate at once if it is valid for less than 33 seconds, and after 36 to 132 seconds if it is
// valid for three minutes.
var certificatesValid = flag.Duration("certificates", 25*time.Second, "validity of the certificates in TestShortCertificates; 3m takes 20 minutes")

// A14, A15, A16: a node whose client certificates are valid for a short time lives through a
// bootstrap, four rotations, a truncated file, the end of its certificate while it is stopped and
// while the API server is unreachable, and a kubeconfig that embeds its certificate. The API server
// rejects no request, and its pods are not disturbed.
func TestShortCertificates(t *testing.T) {
	plane := controlplane.Of(t)
	signFor(t, plane, *certificatesValid)
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		l := newLink(t, plane.URL)
		n := &certified{link: l, node: newStoppedNode(t, plane, rt, func(n *node) { n.URL = l.url(); n.allowRequests(t) }, configDir(t, "nodeLeaseDurationSeconds: 8\n"))}
		n.join(t, n.UserKubeconfig(t, "system:bootstrap:"+n.name, "system:bootstrappers", 0))
		rejected := n.rejected(t)
		n.start(t)
		n.nodeReady(t)
		w := n.watchPods(t)
		n.apply(t, wellPod)
		n.ready(t, "well")
		before := n.ids(t)
		n.isMember(t)

		for range 4 {
			n.rotated(t)
		}
		n.isMember(t)

		require.NoError(t, os.Truncate(n.current(), 100))
		n.rotated(t)
		n.isMember(t)
		n.stop(t)
		require.NoError(t, os.Truncate(n.current(), 100))
		n.start(t)
		n.isMember(t)

		n.stop(t)
		time.Sleep(time.Until(n.expires(t)) + time.Second)
		n.start(t)
		n.isMember(t)

		n.link.set(false)
		time.Sleep(*certificatesValid + 2*time.Second)
		require.Equal(t, before, n.ids(t))
		n.link.set(true)
		n.isMember(t)

		n.stop(t)
		n.args = slices.DeleteFunc(n.args, func(arg string) bool { return strings.HasPrefix(arg, "--bootstrap-kubeconfig=") })
		embedded := n.NodeKubeconfig(t, n.name, *certificatesValid)
		end := time.Now().Add(*certificatesValid)
		require.NoError(t, os.Rename(embedded, n.kubeconfig()))
		require.NoError(t, os.RemoveAll(n.certDir()))
		n.start(t)
		n.isMember(t)
		n.until(t, "the store has a certificate", func() error {
			_, err := os.Stat(n.current())
			return err
		})
		time.Sleep(time.Until(end) + time.Second)
		n.isMember(t)
		n.stop(t)
		n.start(t)
		n.isMember(t)

		require.Equal(t, before, n.ids(t))
		require.Equal(t, rejected, n.rejected(t), "requests that the API server has not authenticated")
		w.requireUndisturbed(t, func(pod *v1.Pod) bool { return pod.Name == "well" })
	})
}

// signFor replaces kube-controller-manager until the test ends with one whose certificates are valid
// for a given time. It does not watch nodes: their pods must change by their kubelets only.
func signFor(t *testing.T, plane controlplane.Handle, valid time.Duration) {
	t.Helper()
	plane.ControllerManager.Stop(t)
	dir := filepath.Dir(plane.CA)
	out, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer out.Close()
	cmd := exec.Command(plane.Program(t, "kube-controller-manager"),
		"--kubeconfig="+filepath.Join(dir, "kube-controller-manager.kubeconfig"), "--secure-port=0", "--leader-elect=false",
		"--use-service-account-credentials=true", "--service-account-private-key-file="+filepath.Join(dir, "serviceaccounts.key"),
		"--root-ca-file="+plane.CA, "--cluster-signing-cert-file="+plane.CA, "--cluster-signing-key-file="+plane.CAKey,
		"--cluster-signing-duration="+valid.String(), "--controllers=*,-node-lifecycle-controller,-taint-eviction-controller")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed
		if t.Failed() {
			text, _ := os.ReadFile(out.Name())
			t.Logf("the end of the log of kube-controller-manager:\n%s", text[max(0, len(text)-3000):])
		}
	})
}

// allowRequests lets the users with bootstrap kubeconfigs, and all nodes, obtain certificates of
// nodes, as kubeadm does.
func (n *node) allowRequests(t *testing.T) {
	t.Helper()
	for _, b := range [][2]string{
		{"system:node-bootstrapper", "system:bootstrappers"},
		{"system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers"},
		{"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"},
	} {
		name := n.name + "-" + b[0][strings.LastIndexByte(b[0], ':')+1:]
		n.until(t, "cluster role binding "+name, func() error {
			return n.try("create", "clusterrolebinding", name, "--clusterrole="+b[0], "--group="+b[1])
		})
		t.Cleanup(func() { _ = n.try("delete", "clusterrolebinding", name) }) // the API server may have ended
	}
}

// certified is a node with short certificates that reaches its API server through a link.
type certified struct {
	*node
	link *link
}

func (n *node) kubeconfig() string { return filepath.Join(n.dir, "kubelet.conf") }
func (n *node) certDir() string    { return filepath.Join(n.dir, "pki") }
func (n *node) current() string    { return filepath.Join(n.certDir(), "kubelet-client-current.pem") }

// join sets the flags of a kubelet that obtains its certificates with a bootstrap kubeconfig.
func (n *node) join(t *testing.T, bootstrap string) {
	t.Helper()
	n.args = append(n.args[:len(n.args):len(n.args)], "--kubeconfig="+n.kubeconfig(), "--cert-dir="+n.certDir(), "--rotate-certificates", "--bootstrap-kubeconfig="+bootstrap)
}

// isMember waits until the kubelet has renewed its lease since now and its node is ready.
func (n *node) isMember(t *testing.T) {
	t.Helper()
	since := time.Now()
	n.until(t, "the kubelet renews its lease", func() error {
		var lease coordv1.Lease
		found, err := n.reader.read("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+n.name, &lease)
		if err != nil || !found {
			return errors.Join(err, errors.New("no lease"))
		}
		if !lease.Spec.RenewTime.After(since) {
			return fmt.Errorf("renewed at %s, before %s", lease.Spec.RenewTime, since)
		}
		ready, err := n.field("node", n.name, `{.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && ready != "True" {
			err = errors.New("the node is not ready: " + ready)
		}
		return err
	})
}

// rotated waits until the link to the current certificate names another file.
func (n *certified) rotated(t *testing.T) {
	t.Helper()
	before, err := os.Readlink(n.current())
	require.NoError(t, err)
	n.until(t, "the certificate is rotated", func() error {
		if now, err := os.Readlink(n.current()); err != nil || now != before {
			return err
		}
		return errors.New("still " + before)
	})
}

// expires returns the end of the current certificate.
func (n *certified) expires(t *testing.T) time.Time {
	t.Helper()
	block, _ := pem.Decode([]byte(read(t, n.current())))
	require.NotNil(t, block)
	certificate, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return certificate.NotAfter
}

// rejected returns the API server's counters of requests that it has not authenticated.
func (n *certified) rejected(t *testing.T) (lines []string) {
	t.Helper()
	for line := range strings.Lines(n.do(t, "get", "--raw", "/metrics")) {
		if strings.HasPrefix(line, "authentication_attempts{") && !strings.Contains(line, `"success"`) || strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `code="401"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

// link forwards connections to the API server, with their TLS, while it is up.
type link struct {
	target   string
	listener net.Listener

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

func newLink(t *testing.T, server string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &link{target: strings.TrimPrefix(server, "https://"), listener: listener, conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { l.forward(conn) })
		}
	})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		l.set(false)
		all.Wait()
	})
	return l
}

func (l *link) url() string { return "https://" + l.listener.Addr().String() }

// set closes all connections and rejects new ones, or accepts them again.
func (l *link) set(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = !up
	if l.down {
		for conn := range l.conns {
			_ = conn.Close() // its copies end
		}
	}
}

// add registers a connection until remove. It reports false while the link is down.
func (l *link) add(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.down {
		l.conns[conn] = true
	}
	return !l.down
}

func (l *link) remove(conn net.Conn) {
	_ = conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

func (l *link) forward(conn net.Conn) {
	defer l.remove(conn)
	if !l.add(conn) {
		return
	}
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer l.remove(server)
	if !l.add(server) {
		return
	}
	var copies sync.WaitGroup
	copies.Go(func() { _, _ = io.Copy(server, conn); _ = server.Close() })
	copies.Go(func() { _, _ = io.Copy(conn, server); _ = conn.Close() })
	copies.Wait()
}
