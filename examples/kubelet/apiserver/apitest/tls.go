package apitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"
)

// Authority issues certificates for a test.
type Authority struct {
	// PEM is its own certificate.
	PEM []byte

	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority with a new key.
func NewAuthority(t testing.TB) *Authority {
	a := &Authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	a.check(err)
	a.cert, err = x509.ParseCertificate(der)
	a.check(err)
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func (a *Authority) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.check(err)
	return key
}

// Sign returns the certificate for a certificate signing request in PEM, valid from now on.
func (a *Authority) Sign(request []byte, notAfter time.Time) (certPEM []byte) {
	certPEM, err := a.sign(request, time.Now(), notAfter)
	a.check(err)
	return certPEM
}

func (a *Authority) sign(request []byte, notBefore, notAfter time.Time) (certPEM []byte, err error) {
	block, _ := pem.Decode(request)
	if block == nil {
		return nil, errors.New("the request is not in PEM format")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: r.Subject, DNSNames: r.DNSNames, IPAddresses: r.IPAddresses,
		NotBefore: notBefore, NotAfter: notAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.cert, r.PublicKey, a.key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// Issue returns a certificate and its key as PEM, valid for the loopback address, for server.test,
// and for a client of that name.
func (a *Authority) Issue(name string, notAfter time.Time) (certPEM, keyPEM []byte) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	a.check(err)
	key := a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{"system:nodes"}},
		NotBefore: notAfter.Add(-48 * time.Hour), NotAfter: notAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"server.test"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &key.PublicKey, a.key)
	a.check(err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	a.check(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// StartTLS serves s with HTTP/2 on a loopback port until the test ends. Clients need certificates
// of the authority. It returns the address.
func (s *Server) StartTLS(t testing.TB, a *Authority) string {
	certPEM, keyPEM := a.Issue("server", time.Now().Add(time.Hour))
	own, err := tls.X509KeyPair(certPEM, keyPEM)
	a.check(err)
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	a.check(err)
	serve(t, s, l, func(srv *http.Server) error {
		srv.TLSConfig = &tls.Config{
			Certificates: []tls.Certificate{own}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
		}
		return srv.ServeTLS(l, "", "")
	})
	return "https://" + l.Addr().String()
}
