package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	certv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/keyutil"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	// backdate is the age of new certificates.
	backdate time.Duration
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.pem = certPEM(der)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// sign signs a request. The certificate remains valid for the given time.
func (a *authority) sign(r *x509.CertificateRequest, key crypto.PublicKey, valid time.Duration) []byte {
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: r.Subject, DNSNames: r.DNSNames, IPAddresses: r.IPAddresses,
		NotBefore: time.Now().Add(-a.backdate), NotAfter: time.Now().Add(valid),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, a.cert, key, a.key)
	require.NoError(a.t, err)
	return certPEM(der)
}

// pair returns a certificate and its key in PEM.
func (a *authority) pair(r *x509.CertificateRequest, valid time.Duration) (cert, key []byte) {
	k := newKey(a.t)
	text, err := keyutil.MarshalPrivateKeyToPEM(k)
	require.NoError(a.t, err)
	return a.sign(r, k.Public(), valid), text
}

// cluster is an API server with an approver of requests.
type cluster struct {
	*apitest.Server
	t  *testing.T
	ca *authority
}

func newCluster(t *testing.T) *cluster {
	return &cluster{apitest.Start(t), t, newAuthority(t)}
}

func (c *cluster) pending() (out []*certv1.CertificateSigningRequest) {
	for _, r := range apitest.All[*certv1.CertificateSigningRequest](c.Server) {
		if len(r.Status.Conditions) == 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *certv1.CertificateSigningRequest) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return out
}

func (c *cluster) only() *certv1.CertificateSigningRequest {
	c.t.Helper()
	all := c.pending()
	require.Len(c.t, all, 1)
	return all[0]
}

// issue approves and signs a request, with changes if there are any.
func (c *cluster) issue(r *certv1.CertificateSigningRequest, valid time.Duration, change ...func(*x509.CertificateRequest)) *x509.CertificateRequest {
	asked, err := parseRequest(r.Spec.Request)
	require.NoError(c.t, err)
	require.NoError(c.t, asked.CheckSignature())
	signed := *asked
	for _, f := range change {
		f(&signed)
	}
	r.Status.Certificate = c.ca.sign(&signed, signed.PublicKey, valid)
	c.decide(r, certv1.CertificateApproved)
	return asked
}

func (c *cluster) decide(r *certv1.CertificateSigningRequest, as certv1.RequestConditionType) {
	r.Status.Conditions = append(r.Status.Conditions, certv1.CertificateSigningRequestCondition{Type: as, Status: v1.ConditionTrue, Reason: "Test", Message: "of the test"})
	c.Put(r)
	synctest.Wait()
}

// pass advances the time by d and lets due work finish.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func write(t testing.TB, path string, data []byte) {
	require.NoError(t, os.WriteFile(path+".new", data, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

func names(t testing.TB, dir string) (out []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func at(dir, name string) string { return filepath.Join(dir, name) }
