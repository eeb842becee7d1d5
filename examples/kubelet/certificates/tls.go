package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cliflag "k8s.io/component-base/cli/flag"
)

// TLS has the TLS settings of a server. The zero value selects Go's defaults.
type TLS struct {
	MinVersion   uint16
	CipherSuites []uint16
	Curves       []tls.CurveID
}

// ErrNoCertificate is the error of a handshake without a valid serving certificate.
var ErrNoCertificate = errors.New("no valid serving certificate")

// ParseTLS parses tlsMinVersion, tlsCipherSuites and tlsCurvePreferences. Default: version 1.2,
// Go's own suites and curves. It reports all faults at once, by field.
func ParseTLS(minVersion string, cipherSuites []string, curves []int32) (t TLS, err error) {
	var errs [3]error
	if t.MinVersion, errs[0] = cliflag.TLSVersion(minVersion); errs[0] != nil {
		errs[0] = fmt.Errorf("tlsMinVersion: %w", errs[0])
	}
	if t.CipherSuites, errs[1] = cliflag.TLSCipherSuites(cipherSuites); errs[1] != nil {
		errs[1] = fmt.Errorf("tlsCipherSuites: %w", errs[1])
	}
	if t.Curves, errs[2] = cliflag.TLSCurvePreferences(curves); errs[2] != nil {
		errs[2] = fmt.Errorf("tlsCurvePreferences: %w", errs[2])
	}
	return t, errors.Join(errs[:]...)
}

// Warnings returns warnings about settings that are insecure or have no effect.
func (t TLS) Warnings() (out []string) {
	var insecure []string
	for name, id := range cliflag.InsecureTLSCiphers() {
		if slices.Contains(t.CipherSuites, id) {
			insecure = append(insecure, name)
		}
	}
	if len(insecure) > 0 {
		slices.Sort(insecure)
		out = append(out, "tlsCipherSuites: insecure: "+strings.Join(insecure, ", "))
	}
	if t.MinVersion == tls.VersionTLS13 && len(t.CipherSuites) > 0 {
		out = append(out, "tlsCipherSuites: no effect with TLS 1.3, whose cipher suites cannot be configured")
	}
	return out
}

// Server returns a configuration that serves the certificate returned by current. With clientCAs it
// requests a client certificate of one of these authorities, but does not verify it: package auth
// verifies it for each request.
func (t TLS) Server(current func() *tls.Certificate, clientCAs func() *x509.CertPool) *tls.Config {
	c := &tls.Config{
		MinVersion: t.MinVersion, CipherSuites: t.CipherSuites, CurvePreferences: t.Curves,
		NextProtos: []string{"h2", "http/1.1"}, // an http.Server adds them only to its own copy
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if own := current(); own != nil {
				return own, nil
			}
			return nil, ErrNoCertificate
		},
	}
	if clientCAs == nil {
		return c
	}
	c.ClientAuth = tls.RequestClientCert
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		own := c.Clone()
		own.ClientCAs = clientCAs()
		return own, nil
	}
	return c
}

func expired(c *tls.Certificate, now time.Time) bool { return now.After(c.Leaf.NotAfter) }
