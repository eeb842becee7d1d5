package agent

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// outage is a node whose static pod runs while its credential for the API server is unusable.
type outage struct {
	*world
	authority *apitest.Authority
	otherCA   atomic.Bool // the server's certificate is not of the authority in the kubeconfig
}

func (o *outage) path(name string) string { return filepath.Join(o.dir, name) }

func (o *outage) write(name string, data []byte) {
	require.NoError(o.t, os.WriteFile(o.path(name)+".new", data, 0o600))
	require.NoError(o.t, os.Rename(o.path(name)+".new", o.path(name)))
}

// use writes a kubeconfig with a certificate.
func (o *outage) use(notAfter time.Time) {
	cert, key := o.authority.Issue("system:node:n", notAfter)
	o.write("node.pem", append(cert, key...))
	o.write("kubeconfig", []byte(apitest.Kubeconfig("http://server.test", "client-certificate: node.pem\n    client-key: node.pem")))
}

func (o *outage) decide(as certv1.RequestConditionType) (n int) {
	for _, r := range apitest.All[*certv1.CertificateSigningRequest](o.api) {
		if len(r.Status.Conditions) > 0 {
			continue
		}
		if as == certv1.CertificateApproved {
			r.Status.Certificate = o.authority.Sign(r.Spec.Request, time.Now().Add(100*time.Hour))
		}
		r.Status.Conditions = []certv1.CertificateSigningRequestCondition{{Type: as, Status: v1.ConditionTrue, Reason: "Test"}}
		o.api.Put(r)
		n++
	}
	return n
}

func (o *outage) unauthorized(allowed func(apitest.Call) bool) {
	o.api.SetFault(func(c apitest.Call) (f apitest.Fault) {
		if !allowed(c) {
			f.Status = http.StatusUnauthorized
		}
		return f
	})
}

func (o *outage) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if o.otherCA.Load() {
		return nil, x509.UnknownAuthorityError{}
	}
	return o.api.Dial(ctx, network, address)
}

func nothing(*outage) {}

// Static pods, health checks and the kubelet API wait for neither the API server nor a credential.
// When the cause of an outage ends, the agent registers its Node without a restart, and the pod
// continues.
func TestOutageOfTheCredential(t *testing.T) {
	approve := func(o *outage) {
		for range 30 {
			o.Sleep(time.Minute)
			if o.decide(certv1.CertificateApproved) > 0 {
				return
			}
		}
		o.t.Error("no certificate was requested")
	}
	for name, x := range map[string]struct {
		bootstrap bool
		begins    func(o *outage)
		during    func(o *outage)
		ends      func(o *outage)
		says      string // in the check of the credential
	}{
		"no kubeconfig":     {true, nothing, nothing, approve, "kubeconfig: no such file"},
		"truncated":         {true, func(o *outage) { o.write("kubeconfig", []byte("apiVersion: v1\nki")) }, nothing, approve, "kubeconfig: "},
		"no credential":     {true, func(o *outage) { o.use(time.Now()); o.write("node.pem", nil) }, nothing, approve, "node.pem is empty"},
		"expired":           {true, func(o *outage) { o.use(time.Now()) }, nothing, approve, "the client certificate has expired"},
		"expired for good":  {false, func(o *outage) { o.use(time.Now()) }, nothing, func(o *outage) { o.use(time.Now().Add(10 * time.Hour)) }, "the client certificate has expired"},
		"expires meanwhile": {false, func(o *outage) { o.use(time.Now().Add(time.Minute)) }, nothing, func(o *outage) { o.use(time.Now().Add(10 * time.Hour)) }, "the client certificate has expired"},
		"denied":            {true, nothing, func(o *outage) { o.decide(certv1.CertificateDenied) }, approve, "kubeconfig: no such file"},
		"revoked": {true, func(o *outage) { o.use(time.Now().Add(40 * time.Hour)) }, func(o *outage) { o.unauthorized(func(apitest.Call) bool { return false }) },
			func(o *outage) { o.api.SetFault(nil) }, ""},
		"not yet valid": {false, func(o *outage) {
			o.use(time.Now().Add(51 * time.Hour))
			valid := time.Now().Add(5 * time.Minute)
			o.unauthorized(func(apitest.Call) bool { return !time.Now().Before(valid) })
		}, nothing, func(o *outage) { o.Sleep(5 * time.Minute) }, ""},
		"another authority": {true, func(o *outage) { o.use(time.Now().Add(40 * time.Hour)); o.otherCA.Store(true) }, nothing, func(o *outage) { o.otherCA.Store(false) }, ""},
		"token expired": {false, func(o *outage) {
			o.write("kubeconfig", []byte(apitest.Kubeconfig("https://server.test", "token: old")))
			o.otherCA.Store(true)
		}, nothing, func(o *outage) {
			o.otherCA.Store(false)
			o.write("kubeconfig", []byte(apitest.Kubeconfig("http://server.test", "token: new")))
		}, ""},
	} {
		for _, rotates := range []bool{false, true} {
			servers := []string{"is reachable", "refuses", "is silent"}
			if testing.Short() {
				servers = servers[:1]
			}
			for _, server := range servers {
				t.Run(fmt.Sprintf("%s, rotates %t, server %s", name, rotates, server), func(t *testing.T) {
					inClusterOf(t, fake.Config{}, func(w *world) {
						o := &outage{world: w, authority: apitest.NewAuthority(w.t)}
						w.configure = func(cfg *Config) {
							cfg.Flags.Kubeconfig, cfg.Flags.CertDir, cfg.DialAPI = o.path("kubeconfig"), o.path("pki"), o.dial
							cfg.Kubelet.RotateCertificates = rotates
							if x.bootstrap {
								cfg.Flags.BootstrapKubeconfig = w.api.Kubeconfig
							}
						}
						x.begins(o)
						fault := server == "is silent"
						switch server {
						case "refuses":
							w.api.SetDown(true)
						case "is silent":
							w.api.SetFault(func(apitest.Call) apitest.Fault { return apitest.Fault{Delay: time.Hour} })
						}
						w.set(podOf("1", v1.RestartPolicyAlways, "c"))
						w.startFor(10 * time.Second)
						for range 2 {
							require.Equal(t, map[string][]uint32{"c": {0}}, w.Running())
							a := w.whole()
							for _, c := range a.Health() {
								require.True(t, c.OK, "%s: %s", c.Name, c.Message)
							}
							if !fault {
								x.during(o)
							}
							w.Sleep(2 * time.Minute)
							if x.says != "" {
								require.ErrorContains(t, a.credential(), x.says)
							}
						}
						w.api.SetDown(false)
						if fault {
							w.api.SetFault(nil)
						}
						x.ends(o)
						w.Sleep(2 * time.Minute)
						o.decide(certv1.CertificateApproved) // a renewal
						w.Sleep(2 * time.Minute)
						require.Contains(t, w.nodeCondition(v1.NodeReady), "True KubeletReady: ")
						require.NoError(t, w.whole().credential())
						require.Equal(t, map[string][]uint32{"c": {0}}, w.Running())
					})
				})
			}
		}
	}
}

// whole returns an Agent with the parts of w's agent.
func (w *world) whole() *Agent {
	a := &Agent{cfg: *w.agent.in.cfg}
	a.inputs.Store(w.agent.in)
	a.connected.set(w.agent, nil)
	return a
}
