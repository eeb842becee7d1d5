package credentials

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kubelet/config/v1"
)

const fullConfig = `
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: ecr
  matchImages: ["*.dkr.ecr.*.amazonaws.com", "registry.io:8080/path"]
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get-credentials]
  env: [{name: REGION, value: eu}]
- name: tokens
  matchImages: ["*.example.com"]
  defaultCacheDuration: "0s"
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  tokenAttributes:
    serviceAccountTokenAudience: registry
    cacheType: Token
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [example.com/role]
    optionalServiceAccountAnnotationKeys: [example.com/team]
`

func TestParsePluginConfig(t *testing.T) {
	got, err := parsePluginConfig([]byte(fullConfig))
	require.NoError(t, err)
	yes := true
	require.Equal(t, []Provider{
		{
			Name: "ecr", MatchImages: []string{"*.dkr.ecr.*.amazonaws.com", "registry.io:8080/path"},
			DefaultCacheDuration: &metav1.Duration{Duration: 12 * time.Hour}, APIVersion: protocolGroup + "v1",
			Args: []string{"get-credentials"}, Env: []configv1.ExecEnvVar{{Name: "REGION", Value: "eu"}},
		},
		{
			Name: "tokens", MatchImages: []string{"*.example.com"},
			DefaultCacheDuration: &metav1.Duration{}, APIVersion: protocolGroup + "v1",
			TokenAttributes: &configv1.ServiceAccountTokenAttributes{
				ServiceAccountTokenAudience: "registry", CacheType: cacheByToken, RequireServiceAccount: &yes,
				RequiredServiceAccountAnnotationKeys: []string{"example.com/role"},
				OptionalServiceAccountAnnotationKeys: []string{"example.com/team"},
			},
		},
	}, got)
}

func TestParsePluginConfigRefuses(t *testing.T) {
	for _, tc := range []struct{ from, to, want string }{
		{"kind: CredentialProviderConfig", "kind: KubeletConfiguration", "want kind CredentialProviderConfig"},
		{"kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v2", "want kind CredentialProviderConfig of kubelet.config.k8s.io/v1"},
		{"name: ecr", "name: ../ecr", "providers[0] \"../ecr\": name"},
		{"name: ecr", "name: ''", "name is not"},
		{"name: tokens", "name: ecr", `providers[1]: duplicate name "ecr"`},
		{`["*.example.com"]`, `[]`, "matchImages is empty"},
		{`["*.example.com"]`, `["a.com:*"]`, `matchImages[0] "a.com:*"`},
		{`["*.example.com"]`, `["a.com/*"]`, "in the registry's name only"},
		{`["*.example.com"]`, `["[.com"]`, `matchImages[0]`},
		{`["*.example.com"]`, `[""]`, "missing registry"},
		{"defaultCacheDuration: 12h", "", "defaultCacheDuration is required"},
		{"12h", "-1s", "defaultCacheDuration is negative"},
		{"12h", "soon", "duration"},
		{"credentialprovider.kubelet.k8s.io/v1\n  args", "v1\n  args", `apiVersion "v1" is not supported`},
		{"{name: REGION", "{name: 'A=B'", "env[0].name"},
		{"serviceAccountTokenAudience: registry", "", "tokenAttributes: serviceAccountTokenAudience"},
		{"cacheType: Token", "cacheType: Never", "tokenAttributes: cacheType"},
		{"requireServiceAccount: true", "", "requireServiceAccount is required"},
		{"requireServiceAccount: true", "requireServiceAccount: false", "requires requireServiceAccount"},
		{"[example.com/team]", "[example.com/role]", "duplicate"},
		{"[example.com/team]", "['a b']", `annotation key "a b"`},
		{"args:", "arguments:", "unknown field"},
		{fullConfig, "{}", "want kind"},
		{fullConfig, "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1", "providers is empty"},
	} {
		changed := strings.Replace(fullConfig, tc.from, tc.to, 1)
		require.NotEqual(t, fullConfig, changed, tc.from)
		_, err := parsePluginConfig([]byte(changed))
		require.ErrorContains(t, err, tc.want, changed)
	}
}

// Files of a folder are read by name; a provider name in two files is refused.
func TestLoadPluginConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	_, err := LoadPluginConfig(dir)
	require.ErrorContains(t, err, dir)
	_, err = LoadPluginConfig(filepath.Join(dir, "none.yaml"))
	require.ErrorContains(t, err, "none.yaml")
	one := func(name string) string {
		return `{"kind": "CredentialProviderConfig", "apiVersion": "kubelet.config.k8s.io/v1beta1", "providers": [{"name": "` + name +
			`", "matchImages": ["x.io"], "defaultCacheDuration": "1m", "apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1"}]}`
	}
	write("b.json", one("b"))
	write("a.yml", one("a"))
	write("c.txt", "not read")
	got, err := LoadPluginConfig(dir)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, "a b", got[0].Name+" "+got[1].Name)
	write("c.yaml", one("a"))
	_, err = LoadPluginConfig(dir)
	require.ErrorContains(t, err, `duplicate name "a"`)
	write("c.yaml", "kind: [")
	_, err = LoadPluginConfig(dir)
	require.ErrorContains(t, err, "c.yaml")
	got, err = LoadPluginConfig(filepath.Join(dir, "b.json"))
	require.NoError(t, err)
	require.Len(t, got, 1)
}

// The hash covers the length and the content of each file, in the order of names, as upstream's.
func TestHashPluginConfig(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"b.json": "b", "a.yml": "two", "c.txt": "not read"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	want := func(content string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))) }
	got, err := HashPluginConfig(dir)
	require.NoError(t, err)
	require.Equal(t, want("\x00\x00\x00\x00\x00\x00\x00\x03two\x00\x00\x00\x00\x00\x00\x00\x01b"), got)
	got, err = HashPluginConfig(filepath.Join(dir, "b.json"))
	require.NoError(t, err)
	require.Equal(t, want("\x00\x00\x00\x00\x00\x00\x00\x01b"), got)
	_, err = HashPluginConfig(filepath.Join(dir, "none"))
	require.ErrorContains(t, err, "none")
}

func FuzzParsePluginConfig(f *testing.F) {
	f.Add([]byte(fullConfig))
	f.Add([]byte(`{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1","providers":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		providers, err := parsePluginConfig(data)
		if err != nil {
			return
		}
		require.NotEmpty(t, providers)
		for i := range providers {
			require.Equal(t, providers[i].Name, filepath.Base(providers[i].Name))
			require.GreaterOrEqual(t, providers[i].DefaultCacheDuration.Duration, time.Duration(0))
			(&plugin{Provider: providers[i]}).wants("registry.io/x")
		}
	})
}
