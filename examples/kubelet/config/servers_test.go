package config

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// withFile reads a command line and a configuration file.
func withFile(t *testing.T, text string, args ...string) (*Config, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubelet.yaml")
	require.NoError(t, os.WriteFile(path, []byte(head+text), 0o600))
	c, err := FromArgs(append(args, "--hostname-override=n", "--config", path), io.Discard)
	return c, filepath.Dir(path), err
}

// A7, A8: a node without an API server serves its API only if somebody says who may use it.
func TestStandaloneAPI(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		args    []string
		address string
		wrong   []string
	}{
		"nothing said":    {},
		"named only":      {text: "port: 1234"},
		"open to all":     {text: "authentication: {anonymous: {enabled: true}}\nauthorization: {mode: AlwaysAllow}", address: "0.0.0.0:10250"},
		"by certificates": {args: []string{"--client-ca-file=/ca", "--authorization-mode=AlwaysAllow", "--port=1234", "--address=127.0.0.1"}, address: "127.0.0.1:1234"},
		"webhooks": {
			text:  "authentication: {webhook: {enabled: true}}\nauthorization: {mode: Webhook}",
			wrong: []string{"authorization.mode: Webhook needs the API server", "authentication.webhook.enabled: needs the API server"},
		},
		"file defaults": {text: "authentication: {anonymous: {enabled: false}}", wrong: []string{"authorization.mode: Webhook needs"}},
		"wanted":        {text: "enableServer: true", wrong: []string{"authorization.mode: Webhook needs"}},
		"signed by nobody": {text: "serverTLSBootstrap: true\nrotateCertificates: true", args: []string{"--anonymous-auth", "--authorization-mode=AlwaysAllow", "--bootstrap-kubeconfig=/b"},
			wrong: []string{"serverTLSBootstrap", "rotateCertificates", "--bootstrap-kubeconfig"}},
	} {
		got, _, err := withFile(t, c.text, c.args...)
		if len(c.wrong) > 0 {
			for _, text := range c.wrong {
				require.ErrorContains(t, err, text, name)
			}
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.address, got.APIAddress(), name)
	}
}

// A1, A30: flags win over the file, and all that is wrong is told at once.
func TestAPIOfANode(t *testing.T) {
	c, dir, err := withFile(t, `
port: 1
tlsCertFile: a.crt
tlsPrivateKeyFile: a.key
tlsMinVersion: VersionTLS13
authentication: {x509: {clientCAFile: ca.crt}, webhook: {cacheTTL: 3s}}
authorization: {webhook: {cacheAuthorizedTTL: 4s}}
enableSystemLogQuery: true
`, "--kubeconfig=/k", "--port=2", "--authentication-token-webhook-cache-ttl=5s", "--enable-debugging-handlers=false", "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384")
	require.NoError(t, err)
	k := c.Kubelet
	require.Equal(t, "0.0.0.0:2", c.APIAddress())
	require.Equal(t, dir+"/a.crt", k.TLSCertFile)
	require.Equal(t, dir+"/a.key", k.TLSPrivateKeyFile)
	require.Equal(t, dir+"/ca.crt", k.Authentication.X509.ClientCAFile)
	require.Equal(t, 5*time.Second, k.Authentication.Webhook.CacheTTL.Duration)
	require.Equal(t, 4*time.Second, k.Authorization.Webhook.CacheAuthorizedTTL.Duration)
	require.Equal(t, kubeletv1beta1.KubeletAuthorizationModeWebhook, k.Authorization.Mode)
	require.False(t, *k.EnableDebuggingHandlers)
	require.True(t, *k.EnableSystemLogQuery)
	require.Len(t, k.TLSCipherSuites, 2)

	_, _, err = withFile(t, `
port: 70000
tlsCertFile: a.crt
tlsMinVersion: VersionTLS09
tlsCipherSuites: [ROT13]
authorization: {mode: Maybe, webhook: {cacheUnauthorizedTTL: -1s}}
`, "--kubeconfig=/k")
	for _, text := range []string{"port: 70000", "tlsCertFile, tlsPrivateKeyFile", "tlsMinVersion", "tlsCipherSuites", `authorization.mode: "Maybe"`, "cacheUnauthorizedTTL: is negative"} {
		require.ErrorContains(t, err, text)
	}
	for _, bad := range []string{"--port=x", "--anonymous-auth=perhaps", "--streaming-connection-idle-timeout=4"} {
		_, _, err := withFile(t, "", "--kubeconfig=/k", bad)
		require.Error(t, err, bad)
	}
	c, _, err = withFile(t, "enableServer: false", "--kubeconfig=/k")
	require.NoError(t, err)
	require.Empty(t, c.APIAddress())
}
