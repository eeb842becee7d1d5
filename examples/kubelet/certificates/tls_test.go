package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/internal/memnet"
)

func TestParseTLS(t *testing.T) {
	s, err := ParseTLS("", nil, nil)
	require.NoError(t, err)
	require.Equal(t, TLS{MinVersion: tls.VersionTLS12}, s)
	require.Empty(t, s.Warnings())

	s, err = ParseTLS("VersionTLS13", []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"}, []int32{int32(tls.X25519)})
	require.NoError(t, err)
	require.Equal(t, []tls.CurveID{tls.X25519}, s.Curves)
	require.Equal(t, []string{
		"tlsCipherSuites: insecure: TLS_RSA_WITH_AES_128_CBC_SHA",
		"tlsCipherSuites: no effect with TLS 1.3, whose cipher suites cannot be configured",
	}, s.Warnings())

	_, err = ParseTLS("TLS1.2", []string{"TLS_NONE"}, []int32{-1})
	for _, says := range []string{`tlsMinVersion: unknown tls version "TLS1.2"`, "tlsCipherSuites: ", "TLS_NONE", "tlsCurvePreferences: "} {
		require.ErrorContains(t, err, says)
	}
}

func handshake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	l := memnet.Listen(0)
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s := tls.Server(c, server)
		if s.Handshake() == nil {
			_, _ = s.Write([]byte("x")) // the client receives the server's verdict
		}
		accepted <- s
	}()
	c, err := l.DialContext(context.WithoutCancel(t.Context()))
	require.NoError(t, err)
	conn := tls.Client(c, client)
	_, err = conn.Read(make([]byte, 1))
	state := conn.ConnectionState()
	_ = c.Close() // both ends: Close of a TLS connection waits for its peer
	_ = (<-accepted).(*tls.Conn).NetConn().Close()
	return state, err
}

// Clients get the configured settings (CIS 4.2.13) and the current certificate (A17).
func TestServer(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.pair(ServingRequest("worker", addressesOf("10.0.0.1")), time.Hour)
	own, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	var current *tls.Certificate
	var asked [][]byte
	client := func(change ...func(*tls.Config)) *tls.Config {
		c := &tls.Config{RootCAs: roots, ServerName: "10.0.0.1", GetClientCertificate: func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			asked = r.AcceptableCAs
			return &own, nil
		}}
		for _, f := range change {
			f(c)
		}
		return c
	}
	settings, err := ParseTLS("VersionTLS12", []string{"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}, nil)
	require.NoError(t, err)
	clientCAs := roots
	server := settings.Server(func() *tls.Certificate { return current }, func() *x509.CertPool { return clientCAs })

	_, err = handshake(t, server, client())
	require.Error(t, err, "there is no certificate yet")
	_, err = server.GetCertificate(nil)
	require.ErrorIs(t, err, ErrNoCertificate)
	current = &own
	state, err := handshake(t, server, client())
	require.NoError(t, err)
	require.Equal(t, uint16(tls.VersionTLS13), state.Version)
	require.Equal(t, [][]byte{ca.cert.RawSubject}, asked, "clients receive the names of the authorities")
	state, err = handshake(t, server, client(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }))
	require.NoError(t, err)
	require.Equal(t, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, state.CipherSuite)
	_, err = handshake(t, server, client(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }))
	require.Error(t, err)
	_, err = handshake(t, server, client(func(c *tls.Config) {
		c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	}))
	require.Error(t, err)

	other := newAuthority(t)
	clientCAs = x509.NewCertPool()
	clientCAs.AddCert(other.cert)
	_, err = handshake(t, server, client())
	require.NoError(t, err, "a certificate of another authority does not end the connection: the client may have a token")
	require.Equal(t, [][]byte{other.cert.RawSubject}, asked)

	asked = nil
	_, err = handshake(t, settings.Server(func() *tls.Certificate { return current }, nil), client())
	require.NoError(t, err)
	require.Nil(t, asked, "no client certificate is requested without authorities")
}
