package main

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCertificates(t *testing.T) {
	now := time.Now()
	a, err := newAuthority(now)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(a.pem))

	client, err := a.client("system:node:n1", "system:nodes", now, time.Hour)
	require.NoError(t, err)
	leaf := parse(t, client)
	require.Equal(t, "system:node:n1", leaf.Subject.CommonName)
	require.Equal(t, []string{"system:nodes"}, leaf.Subject.Organization)
	clientAuth := x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	_, err = leaf.Verify(clientAuth)
	require.NoError(t, err)
	clientAuth.CurrentTime = now.Add(time.Hour + time.Second)
	_, err = leaf.Verify(clientAuth)
	var invalid x509.CertificateInvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, x509.Expired, invalid.Reason)
	_, err = leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	require.Error(t, err, "a client certificate must not authenticate a server")

	server, err := a.server(now, []net.IP{net.IPv4(127, 0, 0, 1)}, "localhost")
	require.NoError(t, err)
	leaf = parse(t, server)
	for _, name := range []string{"localhost", "127.0.0.1"} {
		_, err = leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name})
		require.NoError(t, err, name)
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "127.0.0.2"})
	require.Error(t, err)

	other, err := newAuthority(now)
	require.NoError(t, err)
	pool = x509.NewCertPool()
	pool.AddCert(other.certificate)
	_, err = leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "localhost"})
	require.Error(t, err, "a certificate of another run")
}

func parse(t *testing.T, p pair) *x509.Certificate {
	t.Helper()
	both, err := tls.X509KeyPair(p.certificate, p.key) // fails unless key and certificate match
	require.NoError(t, err)
	require.IsType(t, (*ecdsa.PrivateKey)(nil), both.PrivateKey)
	return both.Leaf
}

func TestKubeconfig(t *testing.T) {
	text, err := kubeconfig("https://127.0.0.1:1", []byte("ca"), "me", pair{[]byte("certificate"), []byte("key")})
	require.NoError(t, err)
	var config struct {
		CurrentContext string `json:"current-context"`
		Contexts       []struct {
			Name    string
			Context struct{ Cluster, User string }
		}
		Clusters []struct {
			Name    string
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			Name string
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &config))
	require.Equal(t, config.CurrentContext, config.Contexts[0].Name)
	require.Equal(t, config.Contexts[0].Context.Cluster, config.Clusters[0].Name)
	require.Equal(t, "me", config.Contexts[0].Context.User)
	require.Equal(t, "me", config.Users[0].Name)
	require.Equal(t, "https://127.0.0.1:1", config.Clusters[0].Cluster.Server)
	require.Equal(t, "ca", string(config.Clusters[0].Cluster.CA))
	require.Equal(t, "certificate", string(config.Users[0].User.Certificate))
	require.Equal(t, "key", string(config.Users[0].User.Key))
}

func TestFreePort(t *testing.T) {
	port, err := freePort()
	require.NoError(t, err)
	require.Less(t, port, 32768)
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	require.NoError(t, err)
	require.NoError(t, l.Close())
}
