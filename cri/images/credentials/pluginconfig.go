package credentials

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	configv1 "k8s.io/kubelet/config/v1"
	"sigs.k8s.io/yaml"
)

// Provider is a credential provider plugin, as in the providers of the kubelet's
// CredentialProviderConfig (KEP-2133, KEP-4412). Its Name is a program in PluginsConfig.BinDir.
type Provider = configv1.CredentialProvider

const (
	cacheByAccount = configv1.ServiceAccountServiceAccountTokenCacheType
	cacheByToken   = configv1.TokenServiceAccountTokenCacheType
)

const (
	configGroup   = "kubelet.config.k8s.io/"
	configKind    = "CredentialProviderConfig"
	protocolGroup = "credentialprovider.kubelet.k8s.io/"
)

// versions are the supported versions of both groups. Their types are identical.
var versions = []string{"v1", "v1beta1", "v1alpha1"}

func knownVersion(group, apiVersion string) bool {
	version, ok := strings.CutPrefix(apiVersion, group)
	return ok && slices.Contains(versions, version)
}

// LoadPluginConfig reads a CredentialProviderConfig of kubelet.config.k8s.io/v1, v1beta1 or
// v1alpha1 from a file, or from all .json, .yaml and .yml files of a folder, ordered by name.
// Errors contain the file and the field.
func LoadPluginConfig(path string) ([]Provider, error) {
	files, err := configFiles(path)
	if err != nil {
		return nil, fmt.Errorf("credential providers: %w", err)
	}
	var out []Provider
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("credential providers: %w", err)
		}
		providers, err := parsePluginConfig(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, providers...)
	}
	if err := validateProviders(out); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err) // a name in two files
	}
	return out, nil
}

// HashPluginConfig returns a hash of the files that LoadPluginConfig reads, such as "sha256:9f86...".
// It equals the label of the upstream kubelet's metric kubelet_credential_provider_config_info.
func HashPluginConfig(path string) (string, error) {
	files, err := configFiles(path)
	if err != nil {
		return "", fmt.Errorf("credential providers: %w", err)
	}
	hash := sha256.New()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("credential providers: %w", err)
		}
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
		hash.Write(data)
	}
	return fmt.Sprintf("sha256:%x", hash.Sum(nil)), nil
}

func configFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(e.Name())) && !e.IsDir() {
			out = append(out, filepath.Join(path, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no .json, .yaml or .yml file: %w", path, fs.ErrNotExist)
	}
	return out, nil
}

// parsePluginConfig parses one CredentialProviderConfig in YAML or JSON. An unknown field is an
// error.
func parsePluginConfig(data []byte) ([]Provider, error) {
	var file configv1.CredentialProviderConfig
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, fmt.Errorf("credential providers: %w", err)
	}
	if file.Kind != configKind || !knownVersion(configGroup, file.APIVersion) {
		return nil, fmt.Errorf("credential providers: want kind %s of %sv1, not kind %q of %q", configKind, configGroup, file.Kind, file.APIVersion)
	}
	return file.Providers, validateProviders(file.Providers)
}

func validateProviders(providers []Provider) error {
	if len(providers) == 0 {
		return errors.New("credential providers: providers is empty")
	}
	seen := map[string]bool{}
	for i := range providers {
		p := &providers[i]
		if err := validateProvider(p); err != nil {
			return fmt.Errorf("credential providers: providers[%d] %q: %w", i, p.Name, err)
		}
		if seen[p.Name] {
			return fmt.Errorf("credential providers: providers[%d]: duplicate name %q", i, p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

func validateProvider(p *Provider) error {
	switch {
	case p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/\\ \t\n\x00"):
		return errors.New("name is not a valid file name")
	case len(p.MatchImages) == 0:
		return errors.New("matchImages is empty")
	case p.DefaultCacheDuration == nil:
		return errors.New("defaultCacheDuration is required")
	case p.DefaultCacheDuration.Duration < 0:
		return fmt.Errorf("defaultCacheDuration is negative: %s", p.DefaultCacheDuration.Duration)
	case !knownVersion(protocolGroup, p.APIVersion):
		return fmt.Errorf("apiVersion %q is not supported, want %sv1", p.APIVersion, protocolGroup)
	}
	for i, match := range p.MatchImages {
		if err := checkPlace(match); err != nil {
			return fmt.Errorf("matchImages[%d] %q: %w", i, match, err)
		}
	}
	for i, env := range p.Env {
		if env.Name == "" || strings.ContainsAny(env.Name, "=\x00") {
			return fmt.Errorf("env[%d].name %q is not a valid variable name", i, env.Name)
		}
	}
	if p.TokenAttributes != nil {
		if err := validateToken(p.TokenAttributes); err != nil {
			return fmt.Errorf("tokenAttributes: %w", err)
		}
	}
	return nil
}

func validateToken(t *configv1.ServiceAccountTokenAttributes) error {
	switch {
	case t.ServiceAccountTokenAudience == "":
		return errors.New("serviceAccountTokenAudience is required")
	case t.CacheType != cacheByAccount && t.CacheType != cacheByToken:
		return fmt.Errorf("cacheType %q is neither %s nor %s", t.CacheType, cacheByAccount, cacheByToken)
	case t.RequireServiceAccount == nil:
		return errors.New("requireServiceAccount is required")
	case !*t.RequireServiceAccount && len(t.RequiredServiceAccountAnnotationKeys) > 0:
		return errors.New("requiredServiceAccountAnnotationKeys requires requireServiceAccount: true")
	}
	seen := map[string]bool{}
	for _, key := range slices.Concat(t.RequiredServiceAccountAnnotationKeys, t.OptionalServiceAccountAnnotationKeys) {
		if faults := validation.IsQualifiedName(strings.ToLower(key)); len(faults) > 0 {
			return fmt.Errorf("annotation key %q: %s", key, strings.Join(faults, "; "))
		}
		if seen[key] {
			return fmt.Errorf("duplicate annotation key %q", key)
		}
		seen[key] = true
	}
	return nil
}
