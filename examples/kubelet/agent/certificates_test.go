package agent

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certv1 "k8s.io/api/certificates/v1"
	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/csi"
)

// shortLife is the validity of the certificates of a certifiedNode. With the backdating of
// kube-controller-manager, a certificate is replaced 36 to 132 seconds after its signature.
const shortLife = 3 * time.Minute

// certifiedNode is a node with short certificates. Its API server rejects expired ones. The node has
// a static pod, s, and later one of the API server, a.
type certifiedNode struct {
	*world
	ca  *apitest.Authority
	cfg Config

	before map[string]string // IDs of containers by name
}

func withShortCertificates(t *testing.T, test func(*certifiedNode)) {
	inWorld(t, fake.Config{}, func(w *world) {
		n := &certifiedNode{world: w, ca: apitest.NewAuthority(w.t)}
		w.api = apitest.StartSecure(w.t, n.ca)
		w.api.SignRequests(shortLife)
		n.cfg = configOf(w.dir, func(context.Context) (*Connection, error) {
			return &Connection{Runtime: w.calls, Images: w.runtime, Name: "fake", Version: "1", Close: func() error { return nil }}, nil
		})
		n.cfg.Flags.Kubeconfig, n.cfg.Flags.BootstrapKubeconfig = filepath.Join(w.dir, "kubelet.conf"), w.api.Kubeconfig
		n.cfg.Flags.CertDir, n.cfg.Flags.NodeIP = filepath.Join(w.dir, "pki"), hostIPs(w.t)
		n.cfg.Kubelet.RotateCertificates = true
		n.cfg.DialAPI, n.cfg.watchDrivers = w.api.Dial, csi.NoWatch
		test(n)
	})
}

// runFor starts the agent and lets d pass.
func (n *certifiedNode) runFor(d time.Duration) {
	n.t.Helper()
	cfg := n.cfg
	if cfg.Logger = n.log; testing.Verbose() {
		cfg.Logger = slog.New(slog.NewTextHandler(n.t.Output(), nil))
	}
	a, err := New(cfg)
	require.NoError(n.t, err)
	n.stop = apitest.Run(n.t, a.Run)
	n.Sleep(0)
	require.NotNil(n.t, a.inputs.Load(), "the agent has ended")
	pod := podOf("1", v1.RestartPolicyAlways, "s")
	pod.Name, pod.Spec.NodeName = "static", "n"
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "h1"}
	require.NoError(n.t, a.inputs.Load().sources.merger.Set("file", []*v1.Pod{pod}, a.inputs.Load().dirty.Emit))
	n.Sleep(d)
}

// requireUndisturbed fails if a container has ended or restarted, or if the server rejected a
// request. names are the containers.
func (n *certifiedNode) requireUndisturbed(names ...string) {
	n.t.Helper()
	ids := map[string]string{}
	for _, c := range n.Containers() {
		require.Equal(n.t, runtimeapi.ContainerState_CONTAINER_RUNNING, c.State, c.Metadata.Name)
		require.Zero(n.t, c.Metadata.Attempt, c.Metadata.Name)
		ids[c.Metadata.Name] = c.Id
	}
	require.ElementsMatch(n.t, names, slices.Collect(maps.Keys(ids)))
	for name, id := range n.before {
		require.Equal(n.t, id, ids[name], name)
	}
	n.before = ids
	require.Empty(n.t, n.api.Unauthorized())
}

// requireInCluster fails unless the agent has renewed its lease, its Node is ready, and its pods are
// undisturbed.
func (n *certifiedNode) requireInCluster() {
	n.t.Helper()
	n.requireUndisturbed("s", "c")
	lease, ok := apitest.Find(n.api, &coordv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "n"}})
	require.True(n.t, ok, "the node has no lease")
	require.Less(n.t, time.Since(lease.Spec.RenewTime.Time), 20*time.Second, "age of the lease")
	require.Contains(n.t, n.nodeCondition(v1.NodeReady), "True KubeletReady: ")
	require.Equal(n.t, v1.PodRunning, n.at("a").Status.Phase)
}

func (n *certifiedNode) requests() int {
	return len(apitest.All[*certv1.CertificateSigningRequest](n.api))
}

// current returns the path of the link to the certificate in use.
func (n *certifiedNode) current() string {
	return filepath.Join(n.cfg.Flags.CertDir, "kubelet-client-current.pem")
}

// truncate cuts the file of the current certificate, as a full disk does.
func (n *certifiedNode) truncate() {
	n.t.Helper()
	require.NoError(n.t, os.Truncate(n.current(), 100))
}

// join starts a node with only a bootstrap kubeconfig, with a pod of the API server.
func (n *certifiedNode) join() {
	n.put(bound("a", "c"))
	n.runFor(30 * time.Second)
	n.requireInCluster()
}

// A node whose client certificates are valid for three minutes lives through a bootstrap while the
// API server is away, rotations, a truncated file, and the end of its certificate while it is
// stopped and while the API server is away. It sends no request with invalid credentials, and
// no container restarts.
func TestShortCertificates(t *testing.T) {
	withShortCertificates(t, func(n *certifiedNode) {
		n.api.SetDown(true)
		n.runFor(5 * time.Minute)
		n.requireUndisturbed("s")
		n.put(bound("a", "c"))
		n.api.SetDown(false)
		n.Sleep(2 * time.Minute)
		n.requireInCluster()

		before := n.requests()
		n.Sleep(max(hours(1), 10*time.Minute))
		n.requireInCluster()
		require.GreaterOrEqual(n.t, n.requests()-before, 4, "rotations")

		n.truncate()
		n.Sleep(2 * shortLife)
		n.requireInCluster()
		n.stop()
		n.truncate()
		n.runFor(time.Minute)
		n.requireInCluster()

		n.stop()
		n.Sleep(2 * shortLife)
		n.runFor(time.Minute)
		n.requireInCluster()

		n.api.SetDown(true)
		n.Sleep(2 * shortLife)
		n.requireUndisturbed("s", "c")
		n.api.SetDown(false)
		n.Sleep(2 * time.Minute)
		n.requireInCluster()
		n.Sleep(2 * shortLife)
		n.requireInCluster()

		n.stop()
		n.Sleep(2 * shortLife)
		n.api.SetDown(true)
		n.runFor(2 * shortLife)
		n.requireUndisturbed("s", "c")
		n.api.SetDown(false)
		n.Sleep(2 * time.Minute)
		n.requireInCluster()
	})
}

// embed writes a kubeconfig as kubeadm init does, and removes the files of earlier certificates.
func (n *certifiedNode) embed(life time.Duration) {
	n.cfg.Flags.BootstrapKubeconfig = ""
	require.NoError(n.t, os.RemoveAll(n.cfg.Flags.CertDir))
	text := n.ca.Kubeconfig(n.ca.Issue("system:node:n", time.Now().Add(life)))
	require.NoError(n.t, os.WriteFile(n.cfg.Flags.Kubeconfig, []byte(text), 0o600))
}

// A node whose kubeconfig embeds its certificate requests a new one at its start, and uses that
// from then on, also after the embedded one has ended, and after a restart. Without the new file it
// uses the embedded one again.
func TestEmbeddedCertificate(t *testing.T) {
	withShortCertificates(t, func(n *certifiedNode) {
		n.embed(shortLife)
		n.join()
		require.Equal(n.t, 1, n.requests(), "at the start")
		require.FileExists(n.t, n.current())
		kubeconfig, err := os.ReadFile(n.cfg.Flags.Kubeconfig)
		require.NoError(n.t, err)
		require.Contains(n.t, string(kubeconfig), "client-certificate-data", "the kubeconfig is unchanged")
		n.Sleep(hours(1))
		n.requireInCluster()

		n.stop()
		before := n.requests()
		n.runFor(20 * time.Second)
		n.requireInCluster()
		require.LessOrEqual(n.t, n.requests()-before, 1, "the newer certificate is used")

		n.stop()
		n.embed(time.Hour)
		before = n.requests()
		n.runFor(20 * time.Second)
		n.requireInCluster()
		require.Equal(n.t, before+1, n.requests())
		n.truncate()
		n.Sleep(shortLife)
		n.requireInCluster()
		n.stop()
		n.truncate()
		n.runFor(time.Minute)
		n.requireInCluster()

		// kubeadm's kubeconfig of later versions names the file of the rotated certificate.
		n.stop()
		text := n.ca.Kubeconfig([]byte("CERT"), []byte("KEY"))
		for _, field := range []string{"client-certificate", "client-key"} {
			begin := strings.Index(text, field+"-data: ")
			end := begin + strings.IndexByte(text[begin:], '\n')
			text = text[:begin] + field + ": " + n.current() + text[end:]
		}
		require.NoError(n.t, os.WriteFile(n.cfg.Flags.Kubeconfig, []byte(text), 0o600))
		n.runFor(3 * shortLife)
		n.requireInCluster()
	})
}

// An embedded certificate that ends while its API server is away leaves the node without a valid
// one. Its pods continue, and a new kubeconfig brings the node back without a restart of the agent.
func TestEmbeddedCertificateEnds(t *testing.T) {
	withShortCertificates(t, func(n *certifiedNode) {
		n.embed(shortLife)
		n.join()
		n.api.SetDown(true)
		n.Sleep(2 * shortLife)
		n.requireUndisturbed("s", "c")
		n.api.SetDown(false)
		n.Sleep(10 * time.Minute)
		n.requireUndisturbed("s", "c")
		n.embed(shortLife)
		n.Sleep(2 * time.Minute)
		n.requireInCluster()
		n.Sleep(2 * shortLife)
		n.requireInCluster()
	})
}
