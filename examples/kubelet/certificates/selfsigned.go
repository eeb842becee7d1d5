package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	iofs "io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/util/keyutil"

	"github.com/podwright/podwright/internal/fs"
)

// SelfSigned returns the files kubelet.crt and kubelet.key in dir, the serving certificate of a
// server without a configured one. It creates missing files for a host (name or address), valid for
// a year and signed by an authority whose key is not kept. Existing files are used regardless of
// their origin. Expired files that SelfSigned created are replaced.
func SelfSigned(dir, host string) (certFile, keyFile string, err error) {
	if dir == "" || host == "" {
		return "", "", errors.New("certificates: dir and host are required")
	}
	certFile, keyFile = filepath.Join(dir, "kubelet.crt"), filepath.Join(dir, "kubelet.key")
	switch there, err := tls.LoadX509KeyPair(certFile, keyFile); {
	case err == nil && !(expired(&there, time.Now()) && strings.HasPrefix(there.Leaf.Issuer.CommonName, host+"-ca@")):
		return certFile, keyFile, nil
	case err != nil && !errors.Is(err, iofs.ErrNotExist):
		return "", "", fmt.Errorf("%s with %s: %w", certFile, keyFile, err)
	}
	certPEM, keyPEM, err := newSelfSigned(host, time.Now())
	if err != nil {
		return "", "", fmt.Errorf("self-signed certificate of %s: %w", host, err)
	}
	// The certificate is removed first and written last, so that the two files always match.
	if err := os.Remove(certFile); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return "", "", err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", "", err
	}
	if err := fs.WriteAtomic(keyFile, keyPEM, 0o600); err != nil {
		return "", "", err
	}
	return certFile, keyFile, fs.WriteAtomic(certFile, certPEM, 0o644)
}

// newSelfSigned creates a certificate, followed by its authority's. The names are
// client-go's. The keys are ECDSA: RSA keys, as client-go's, are slow to make and in each
// handshake.
func newSelfSigned(host string, now time.Time) (certPEM, keyPEM []byte, err error) {
	authority := certificateOf(fmt.Sprintf("%s-ca@%d", host, now.Unix()), now)
	authority.SerialNumber, authority.IsCA = big.NewInt(1), true
	authority.KeyUsage |= x509.KeyUsageCertSign
	leaf := certificateOf(fmt.Sprintf("%s@%d", host, now.Unix()), now)
	leaf.SerialNumber = big.NewInt(2)
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if ip := net.ParseIP(host); ip != nil {
		leaf.IPAddresses = []net.IP{ip}
	} else {
		leaf.DNSNames = []string{host}
	}
	var keys [2]*ecdsa.PrivateKey
	for i := range keys {
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader); err != nil {
			return nil, nil, err
		}
	}
	for i, c := range []*x509.Certificate{leaf, authority} {
		der, err := x509.CreateCertificate(cryptorand.Reader, c, authority, keys[i].Public(), keys[1])
		if err != nil {
			return nil, nil, err
		}
		certPEM = append(certPEM, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(keys[0])
	return certPEM, keyPEM, err
}

// certificateOf returns the common part of both certificates. They are valid for a year, and from
// an hour ago, for clocks that are slow.
func certificateOf(name string, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(365 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
}
