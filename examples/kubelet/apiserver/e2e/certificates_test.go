package e2e

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/certificates"
)

// approve approves the pending requests of a node for a signer, as an administrator does, and
// returns their number.
func (p plane) approve(t testing.TB, node, signer string) (n int) {
	all, err := p.admin.SigningRequests().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=" + signer})
	require.NoError(t, err)
	for _, r := range all.Items {
		if r.Spec.Username != "system:node:"+node || len(r.Status.Conditions) > 0 {
			continue
		}
		r.Status.Conditions = []certv1.CertificateSigningRequestCondition{{Type: certv1.CertificateApproved, Status: v1.ConditionTrue, Reason: "Test", Message: "by an administrator"}}
		_, err := p.admin.SigningRequests().Update(t.Context(), &r, metav1.UpdateOptions{}, "approval")
		require.NoError(t, err)
		t.Cleanup(func() { deleteObject(t, p.admin.SigningRequests(), r.Name) })
		n++
	}
	return n
}

// A17: a serving certificate is requested with the node's own credentials, approved by an
// administrator and signed by the cluster; then again for another address.
func TestServingCertificate(t *testing.T) {
	n := newPlane(t).node(t)
	var addresses atomic.Pointer[[]v1.NodeAddress]
	addresses.Store(&[]v1.NodeAddress{{Type: v1.NodeHostName, Address: n.name}, {Type: v1.NodeInternalIP, Address: "127.0.0.1"}})
	r, err := certificates.NewRotator(certificates.RotatorConfig{
		Client: n.Client, Signer: certv1.KubeletServingSignerName, Store: certificates.Store{Dir: t.TempDir(), Name: "kubelet-server"},
		Template: func() *x509.CertificateRequest { return certificates.ServingRequest(n.name, *addresses.Load()) },
	})
	require.NoError(t, err)
	apitest.Run(t, r.Run)
	approved := func() bool { return n.approve(t, n.name, certv1.KubeletServingSignerName) == 1 }
	eventually(t, "a request is approved", approved)
	eventually(t, "the certificate is issued", func() bool { return r.Current() != nil })
	authorities, err := certificates.NewAuthorities(n.CA, nil)
	require.NoError(t, err)
	for _, name := range []string{n.name, "127.0.0.1"} {
		_, err = r.Current().Leaf.Verify(x509.VerifyOptions{Roots: authorities.Current(), DNSName: name})
		require.NoError(t, err)
	}
	addresses.Store(&[]v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "127.0.0.2"}})
	r.Wake()
	eventually(t, "a request for the new address is approved", approved)
	eventually(t, "the certificate for the new address is issued", func() bool { return r.Current().Leaf.VerifyHostname("127.0.0.2") == nil })
}

// A14: an agent with bootstrap credentials becomes a node, because the controller manager approves
// its request. The node gets its next client certificate in the same way, and authenticates with
// it.
func TestBootstrapOfNode(t *testing.T) {
	p := newPlane(t)
	name, dir := fmt.Sprintf("joining-%d", time.Now().UnixNano()), t.TempDir()
	const approver = "system:certificates.k8s.io:certificatesigningrequests:"
	p.grant(t, "system:node-bootstrapper", `{"kind":"Group","name":"system:bootstrappers"}`)
	p.grant(t, approver+"nodeclient", `{"kind":"Group","name":"system:bootstrappers"}`)
	p.grant(t, approver+"selfnodeclient", `{"kind":"Group","name":"system:nodes"}`)
	store := certificates.Store{Dir: filepath.Join(dir, "pki"), Name: "kubelet-client"}
	client, err := apiserver.New(apiserver.Config{
		Kubeconfig: filepath.Join(dir, "kubeconfig"), Await: true, CertificateFile: store.CurrentPath(), UserAgent: "podwright-test",
	})
	require.NoError(t, err)
	apitest.Run(t, client.Run)
	start := func() (r *certificates.Rotator, stop func()) {
		r, err := certificates.NewRotator(certificates.RotatorConfig{
			Client: client, Signer: certv1.KubeAPIServerClientKubeletSignerName, Store: store,
			Bootstrap: p.UserKubeconfig(t, "system:bootstrap:"+name, "system:bootstrappers", time.Hour),
			Template:  func() *x509.CertificateRequest { return certificates.ClientRequest(name) },
		})
		require.NoError(t, err)
		return r, apitest.Run(t, r.Run)
	}
	first, stop := start()
	eventually(t, "the kubeconfig is written", func() bool { return client.Err() == nil })
	_, err = client.OwnNode().CreateNode(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	require.NoError(t, err)
	t.Cleanup(func() { deleteObject(t, p.admin.Nodes(), name) })
	stop()

	require.NoError(t, os.Remove(store.CurrentPath())) // the client keeps its certificate
	second, _ := start()
	eventually(t, "the next certificate is issued", func() bool { return second.Current() != nil })
	require.NotEqual(t, first.Current().Leaf.SerialNumber, second.Current().Leaf.SerialNumber)
	eventually(t, "the next certificate is used", func() bool { return client.Expires().Equal(second.Current().Leaf.NotAfter) })
	_, err = client.OwnNode().GetNode(t.Context(), name)
	require.NoError(t, err)
	requests, err := p.admin.SigningRequests().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=" + certv1.KubeAPIServerClientKubeletSignerName})
	require.NoError(t, err)
	for _, r := range requests.Items {
		deleteObject(t, p.admin.SigningRequests(), r.Name)
	}
}
