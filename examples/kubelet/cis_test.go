package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/config"
)

// TestCISBenchmark checks the kubelet section of the CIS Kubernetes Benchmark (4.2, and the parts
// of 4.1 and 4.3 about files and logging that concern a kubelet) against the settings, their
// defaults and a running kubelet. flags are the flags that every node of a cluster has.
func TestCISBenchmark(t *testing.T) {
	dir := t.TempDir()
	ca := apitest.NewAuthority(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("ca.crt"), ca.PEM, 0o600))
	cluster := []string{"--kubeconfig=" + at("kubeconfig"), "--hostname-override=n", "--client-ca-file=" + at("ca.crt")}
	c := settings(t, cluster...)
	k := &c.Kubelet
	for _, r := range []struct {
		id, setting string
		byDefault   bool // fulfilled by the defaults
		// flags are further flags that the recommendation requires if the default does not fulfil
		// it.
		flags []string
		holds func(*config.Config) bool
		not   string
	}{
		{id: "4.2.1 anonymous requests are refused", setting: "authentication.anonymous.enabled", byDefault: true, holds: func(c *config.Config) bool { return !*c.Kubelet.Authentication.Anonymous.Enabled }},
		{id: "4.2.2 authorization is not AlwaysAllow", setting: "authorization.mode", byDefault: true, holds: func(c *config.Config) bool { return c.Kubelet.Authorization.Mode == "Webhook" }},
		{id: "4.2.3 client certificates are verified", setting: "authentication.x509.clientCAFile", byDefault: true, holds: func(c *config.Config) bool { return c.Kubelet.Authentication.X509.ClientCAFile != "" }},
		{id: "4.2.4 no read-only port", setting: "readOnlyPort", byDefault: true, holds: func(c *config.Config) bool { return c.ReadOnlyAddress() == "" }},
		{id: "4.2.5 idle streams end", setting: "streamingConnectionIdleTimeout", byDefault: true, holds: func(c *config.Config) bool { return c.Kubelet.StreamingConnectionIdleTimeout.Duration > 0 }},
		{id: "4.2.5 also with the value 0", setting: "streamingConnectionIdleTimeout", byDefault: true, holds: func(*config.Config) bool {
			return settings(t, append(slices.Clone(cluster), "--streaming-connection-idle-timeout=0")...).Kubelet.StreamingConnectionIdleTimeout.Duration > 0
		}},
		{id: "4.2.6 iptables chains of the kubelet", setting: "makeIPTablesUtilChains", byDefault: true, holds: func(c *config.Config) bool { return *c.Kubelet.MakeIPTablesUtilChains }},
		{id: "4.2.7 the node's name is the host's", setting: "--hostname-override", byDefault: true, holds: func(*config.Config) bool {
			host, err := os.Hostname()
			return err == nil && settings(t, "--kubeconfig=/k").Flags.NodeName == strings.ToLower(host)
		}},
		{id: "4.2.8 the rate limit of events is high enough", setting: "eventRecordQPS", byDefault: true, holds: func(c *config.Config) bool { return *c.Kubelet.EventRecordQPS >= 5 }},
		{id: "4.2.9 a certificate that clients can verify", setting: "tlsCertFile, tlsPrivateKeyFile", flags: []string{"--tls-cert-file=/a.crt", "--tls-private-key-file=/a.key"}, holds: func(c *config.Config) bool {
			return c.Kubelet.TLSCertFile != "" && c.Kubelet.TLSPrivateKeyFile != ""
		}},
		{id: "4.2.10 client certificates rotate", setting: "rotateCertificates", flags: []string{"--rotate-certificates"}, holds: func(c *config.Config) bool { return c.Kubelet.RotateCertificates }},
		{id: "4.2.11 the gate of server certificates is on", setting: "featureGates.RotateKubeletServerCertificate", byDefault: true, holds: func(*config.Config) bool {
			_, err := config.FromArgs([]string{"--kubeconfig=/k", "--rotate-server-certificates", "--feature-gates=RotateKubeletServerCertificate=false"}, io.Discard)
			return err != nil && strings.Contains(err.Error(), "RotateKubeletServerCertificate")
		}},
		{id: "4.2.11 server certificates rotate", setting: "serverTLSBootstrap", flags: []string{"--rotate-server-certificates"}, holds: func(c *config.Config) bool { return c.Kubelet.ServerTLSBootstrap }},
		{id: "4.2.12 strong ciphers only", setting: "tlsCipherSuites", byDefault: true, holds: func(c *config.Config) bool {
			t, err := config.TLS(&c.Kubelet)
			return err == nil && len(t.Warnings()) == 0
		}},
		{id: "4.2.13 processes of a pod are limited", setting: "podPidsLimit", flags: []string{"--pod-max-pids=100"}, holds: func(c *config.Config) bool { return *c.Kubelet.PodPidsLimit == 100 }},
		{id: "4.2.14 seccomp by default", setting: "seccompDefault", flags: []string{"--seccomp-default"}, holds: func(c *config.Config) bool { return *c.Kubelet.SeccompDefault }},
		{id: "4.2.15 addresses to and from pods", setting: "(none)", not: "the network controls what pods can reach"},
	} {
		t.Run(r.id, func(t *testing.T) {
			if r.not != "" {
				return
			}
			require.Equal(t, r.byDefault, r.holds(c), "the default of %s", r.setting)
			require.True(t, r.holds(settings(t, append(slices.Clone(cluster), r.flags...)...)), "%s with %v", r.setting, r.flags)
		})
	}
	require.Equal(t, 50, int(*k.EventRecordQPS))
}

func pool(t *testing.T, ca *apitest.Authority) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(ca.PEM))
	return pool
}

func settings(t *testing.T, args ...string) *config.Config {
	t.Helper()
	c, err := config.FromArgs(args, io.Discard)
	require.NoError(t, err)
	return c
}

// A kubelet that is started with the recommended settings fulfils the recommendations, as seen by a
// client.
func TestHardenedKubelet(t *testing.T) {
	dir, ca, port := t.TempDir(), apitest.NewAuthority(t), free(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("ca.crt"), ca.PEM, 0o600))
	cert, key := ca.Issue("n", time.Now().Add(time.Hour))
	require.NoError(t, os.WriteFile(at("tls.crt"), cert, 0o600))
	require.NoError(t, os.WriteFile(at("tls.key"), key, 0o600))
	// Without an API server there is no authorization by webhook (tested in package server).
	cfg, ended, stop := started(t, t.Output(), "--read-only-port=0", "--client-ca-file="+at("ca.crt"), "--authorization-mode=AlwaysAllow", "--anonymous-auth=false", "--seccomp-default", "--port="+port,
		"--tls-cert-file="+at("tls.crt"), "--tls-private-key-file="+at("tls.key"), "--tls-min-version=VersionTLS12", "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
	defer func() { require.NoError(t, <-ended) }()
	defer stop()
	address := "127.0.0.1:" + port
	client := func(change func(*tls.Config)) *tls.Config {
		settings := &tls.Config{RootCAs: pool(t, ca), ServerName: "127.0.0.1"}
		change(settings)
		return settings
	}
	handshake := func(change func(*tls.Config)) (*tls.Conn, error) {
		conn, err := tls.Dial("tcp", address, client(change))
		if err == nil {
			err = conn.Close()
		}
		return conn, err
	}
	soon(t, func() bool {
		conn, err := handshake(func(*tls.Config) {})
		return err == nil && conn.ConnectionState().PeerCertificates[0].Subject.CommonName == "n"
	}) // the server presents the certificate of the files
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		_, err := handshake(func(c *tls.Config) { c.MinVersion, c.MaxVersion = version, version })
		require.Equal(t, ok, err == nil, "TLS %x: %v", version, err)
	}
	for suite, ok := range map[uint16]bool{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: true, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: false} {
		_, err := handshake(func(c *tls.Config) { c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{suite} })
		require.Equal(t, ok, err == nil, tls.CipherSuiteName(suite))
	}
	code := func(path string, change func(*tls.Config)) int {
		c := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: client(change), DisableKeepAlives: true}}
		response, err := c.Get("https://" + address + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	own, err := tls.X509KeyPair(ca.Issue("admin", time.Now().Add(time.Hour)))
	require.NoError(t, err)
	foreign, err := tls.X509KeyPair(apitest.NewAuthority(t).Issue("admin", time.Now().Add(time.Hour)))
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, code("/pods", func(*tls.Config) {}), "anonymous")
	require.Equal(t, http.StatusUnauthorized, code("/pods", func(c *tls.Config) {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &foreign, nil }
	}))
	admin := func(c *tls.Config) { c.Certificates = []tls.Certificate{own} }
	soon(t, func() bool { return code("/healthz", admin) == http.StatusOK }) // once the runtime was polled
	for _, path := range []string{"/flagz", "/statusz", "/configz"} {
		require.Equal(t, http.StatusOK, code(path, admin), path)
	}
	require.Empty(t, cfg.ReadOnlyAddress())
}
