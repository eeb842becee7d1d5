package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// lifetime is the lifetime of the authority and of the certificates that the run itself uses.
const lifetime = 365 * 24 * time.Hour

// authority signs the certificates of one run.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

// pair is a certificate and its key as PEM.
type pair struct{ certificate, key []byte }

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate(pkix.Name{CommonName: "podwright-controlplane"}, now, lifetime)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	return &authority{parsed, key, pemOf("CERTIFICATE", der)}, err
}

func certificate(subject pkix.Name, now time.Time, valid time.Duration) *x509.Certificate {
	serial := make([]byte, 16)
	_, _ = rand.Read(serial) // never fails
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), Subject: subject,
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(valid),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

// client issues a client certificate for a user, in a group unless group is empty.
func (a *authority) client(user, group string, now time.Time, valid time.Duration) (pair, error) {
	subject := pkix.Name{CommonName: user}
	if group != "" {
		subject.Organization = []string{group}
	}
	template := certificate(subject, now, valid)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// server issues a certificate for a server with these addresses and names.
func (a *authority) server(now time.Time, ips []net.IP, names ...string) (pair, error) {
	template := certificate(pkix.Name{CommonName: apiServer}, now, lifetime)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses, template.DNSNames = ips, names
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("certificate of %s: %w", template.Subject.CommonName, err)
	}
	private, _, err := keyPair(key)
	return pair{pemOf("CERTIFICATE", der), private}, err
}

func keyPair(key *ecdsa.PrivateKey) (private, public []byte, err error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	publicDER, err := x509.MarshalPKIXPublicKey(key.Public())
	return pemOf("EC PRIVATE KEY", der), pemOf("PUBLIC KEY", publicDER), err
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
