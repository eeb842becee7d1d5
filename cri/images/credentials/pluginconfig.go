package credentials

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Provider describes a credential provider plugin, as an entry of providers in a
// kubelet's CredentialProviderConfig (KEP-2133, KEP-4412).
type Provider struct {
	// Name is the name of the program in PluginsConfig.BinDir. Required, once.
	Name string `json:"name"`
	// MatchImages are the images that the program is asked about, as entries of a
	// keyring: "*.example.com:5000/team". At least one.
	MatchImages []string `json:"matchImages"`
	// DefaultCacheDuration is how long an answer is kept that does not say so
	// itself. Zero keeps none. Required, not negative.
	DefaultCacheDuration *metav1.Duration `json:"defaultCacheDuration"`
	// APIVersion is the version that program speaks:
	// credentialprovider.kubelet.k8s.io/v1, v1beta1 or v1alpha1, which are alike.
	// Required.
	APIVersion string `json:"apiVersion"`
	// Args are the program's arguments. Default none.
	Args []string `json:"args,omitempty"`
	// Env are variables that it gets besides those of this process. Default none.
	Env []EnvVar `json:"env,omitempty"`
	// TokenAttributes ask for a token of the pod's service account. nil: the
	// program gets none, and what it answers is good for the whole node.
	TokenAttributes *TokenAttributes `json:"tokenAttributes,omitempty"`
}

// EnvVar is an environment variable of a plugin.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// TokenAttributes say which service account token a plugin gets.
type TokenAttributes struct {
	// ServiceAccountTokenAudience is whom the token is for. Required.
	ServiceAccountTokenAudience string `json:"serviceAccountTokenAudience"`
	// CacheType is "ServiceAccount" when an answer is good for all pods of the
	// service account, "Token" when only for those with the same token. Required.
	CacheType string `json:"cacheType"`
	// RequireServiceAccount leaves the program alone for pods without service
	// account; with false it is run without a token for them. Required.
	RequireServiceAccount *bool `json:"requireServiceAccount"`
	// RequiredServiceAccountAnnotationKeys are annotations of the service account
	// that are handed over and must be there. Default none.
	RequiredServiceAccountAnnotationKeys []string `json:"requiredServiceAccountAnnotationKeys,omitempty"`
	// OptionalServiceAccountAnnotationKeys are handed over if they are there.
	// Default none.
	OptionalServiceAccountAnnotationKeys []string `json:"optionalServiceAccountAnnotationKeys,omitempty"`
}

// The values of TokenAttributes.CacheType.
const (
	CacheByServiceAccount = "ServiceAccount"
	CacheByToken          = "Token"
)

const (
	configGroup   = "kubelet.config.k8s.io/"
	configKind    = "CredentialProviderConfig"
	protocolGroup = "credentialprovider.kubelet.k8s.io/"
)

// versions are those of both groups; the types are alike in all of them.
var versions = []string{"v1", "v1beta1", "v1alpha1"}

func knownVersion(group, apiVersion string) bool {
	version, ok := strings.CutPrefix(apiVersion, group)
	return ok && slices.Contains(versions, version)
}

// LoadPluginConfig reads a CredentialProviderConfig of kubelet.config.k8s.io/v1,
// v1beta1 or v1alpha1 from a file, or from all .json, .yaml and .yml files of a
// folder in the order of their names. Errors name the file and the field.
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
		providers, err := ParsePluginConfig(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, providers...)
	}
	if err := validateProviders(out); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err) // a name that is in two files
	}
	return out, nil
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

// ParsePluginConfig reads one CredentialProviderConfig, in YAML or JSON. A field
// that it does not know is an error.
func ParsePluginConfig(data []byte) ([]Provider, error) {
	var file struct {
		metav1.TypeMeta `json:",inline"`
		Providers       []Provider `json:"providers"`
	}
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
		if err := p.validate(); err != nil {
			return fmt.Errorf("credential providers: providers[%d] %q: %w", i, p.Name, err)
		}
		if seen[p.Name] {
			return fmt.Errorf("credential providers: providers[%d]: name %q is there twice", i, p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

func (p *Provider) validate() error {
	switch {
	case p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/\\ \t\n\x00"):
		return errors.New("name is not the name of a file")
	case len(p.MatchImages) == 0:
		return errors.New("matchImages is empty")
	case p.DefaultCacheDuration == nil:
		return errors.New("defaultCacheDuration is required")
	case p.DefaultCacheDuration.Duration < 0:
		return fmt.Errorf("defaultCacheDuration is negative: %s", p.DefaultCacheDuration.Duration)
	case !knownVersion(protocolGroup, p.APIVersion):
		return fmt.Errorf("apiVersion %q is not known: want %sv1", p.APIVersion, protocolGroup)
	}
	for i, match := range p.MatchImages {
		if err := checkPlace(match); err != nil {
			return fmt.Errorf("matchImages[%d] %q: %w", i, match, err)
		}
	}
	for i, env := range p.Env {
		if env.Name == "" || strings.ContainsAny(env.Name, "=\x00") {
			return fmt.Errorf("env[%d].name %q is not the name of a variable", i, env.Name)
		}
	}
	if p.TokenAttributes != nil {
		if err := p.TokenAttributes.validate(); err != nil {
			return fmt.Errorf("tokenAttributes: %w", err)
		}
	}
	return nil
}

func (t *TokenAttributes) validate() error {
	switch {
	case t.ServiceAccountTokenAudience == "":
		return errors.New("serviceAccountTokenAudience is required")
	case t.CacheType != CacheByServiceAccount && t.CacheType != CacheByToken:
		return fmt.Errorf("cacheType %q is neither %s nor %s", t.CacheType, CacheByServiceAccount, CacheByToken)
	case t.RequireServiceAccount == nil:
		return errors.New("requireServiceAccount is required")
	case !*t.RequireServiceAccount && len(t.RequiredServiceAccountAnnotationKeys) > 0:
		return errors.New("requiredServiceAccountAnnotationKeys need requireServiceAccount")
	}
	seen := map[string]bool{}
	for _, key := range slices.Concat(t.RequiredServiceAccountAnnotationKeys, t.OptionalServiceAccountAnnotationKeys) {
		if faults := validation.IsQualifiedName(strings.ToLower(key)); len(faults) > 0 {
			return fmt.Errorf("annotation key %q: %s", key, strings.Join(faults, "; "))
		}
		if seen[key] {
			return fmt.Errorf("annotation key %q is there twice", key)
		}
		seen[key] = true
	}
	return nil
}

// cacheFor is how long an answer is kept.
func (p *Provider) cacheFor(answer *metav1.Duration) time.Duration {
	if answer != nil {
		return answer.Duration
	}
	return p.DefaultCacheDuration.Duration
}
