package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/client-go/util/cert"
)

// NewServing reads a certificate chain and its key (tlsCertFile, tlsPrivateKeyFile). It accepts an
// expired certificate: clients reject it.
func NewServing(certFile, keyFile string, log *slog.Logger) (*Files[tls.Certificate], error) {
	if certFile == "" || keyFile == "" {
		return nil, errors.New("certificates: certFile and keyFile are required")
	}
	return newFiles(log, func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return nil, fmt.Errorf("%s with %s: %w", certFile, keyFile, err)
		}
		return &pair, nil
	}, certFile, keyFile)
}

// NewAuthorities reads the certificates of the authorities that sign client certificates
// (authentication.x509.clientCAFile).
func NewAuthorities(file string, log *slog.Logger) (*Files[x509.CertPool], error) {
	if file == "" {
		return nil, errors.New("certificates: file is required")
	}
	return newFiles(log, func(contents [][]byte) (*x509.CertPool, error) {
		all, err := cert.ParseCertsPEM(contents[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		pool := x509.NewCertPool()
		for _, c := range all {
			pool.AddCert(c)
		}
		return pool, nil
	}, file)
}
