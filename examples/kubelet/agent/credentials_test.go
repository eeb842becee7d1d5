package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// accounts contains each service account, and returns tokens with its name.
type accounts struct{}

func (accounts) ServiceAccount(_ context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "sa"}}, nil
}

func (accounts) Token(_ context.Context, pod *v1.Pod, audience string) (string, error) {
	return pod.Spec.ServiceAccountName + "-for-" + audience, nil
}

// KEP-4412: the program of a credential provider receives a token of the pod's service account. An
// agent without an API server rejects such a provider at its start.
func TestCredentialProviderGetsToken(t *testing.T) {
	dir := t.TempDir()
	program := `#!/bin/sh
token=$(sed 's/.*"serviceAccountToken":"\([^"]*\)".*/\1/')
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","auth":{"*.x.io":{"username":"u","password":"'$token'"}}}'
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p"), []byte(program), 0o755))
	providers := filepath.Join(dir, "providers.yaml")
	require.NoError(t, os.WriteFile(providers, []byte(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: p
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.x.io"]
  defaultCacheDuration: 1m
  tokenAttributes: {serviceAccountTokenAudience: registry, cacheType: Token, requireServiceAccount: true}
`), 0o600))
	cfg := configOf(t.TempDir(), noRuntime)
	require.NoError(t, cfg.complete())
	cfg.Flags.CredentialProviderConfig, cfg.Flags.CredentialProviderBinDir = providers, dir

	_, err := newCredentials(&cfg, references{lookup: noObjects{}}, recorder{})
	require.ErrorContains(t, err, `PluginsConfig.ServiceAccounts is required by the tokenAttributes of provider "p"`)

	source, err := newCredentials(&cfg, references{lookup: noObjects{}, accounts: accounts{}}, recorder{})
	require.NoError(t, err)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}, Spec: v1.PodSpec{ServiceAccountName: "robot"}}
	found, err := source.Credentials(t.Context(), pod, "a.x.io/x")
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, "robot-for-registry", found[0].Auth.Password)
}
