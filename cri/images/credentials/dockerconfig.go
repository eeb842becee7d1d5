package credentials

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type dockerEntry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Email         string `json:"email"`
	Auth          string `json:"auth"` // base64 of username:password
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// ParseDockerConfig parses a docker configuration: config.json with its entries in "auths", or the
// older .dockercfg, which consists of the entries. It does not run credential helpers. Errors
// contain the registry, never a secret.
func ParseDockerConfig(data []byte) (Keyring, error) {
	var fields map[string]json.RawMessage
	if err := decode(data, &fields); err != nil {
		return Keyring{}, err
	}
	var entries map[string]dockerEntry
	if auths, ok := fields["auths"]; ok {
		data = auths
	} else if isConfigJSON(fields) {
		return Keyring{}, nil
	}
	if err := decode(data, &entries); err != nil {
		return Keyring{}, err
	}
	var k Keyring
	for _, server := range slices.Sorted(maps.Keys(entries)) {
		entry := entries[server]
		auth, err := entry.auth()
		if err != nil {
			return Keyring{}, fmt.Errorf("docker configuration: %s: %w", server, err)
		}
		if auth != nil {
			k.add(server, Credential{Auth: auth, email: entry.Email})
		}
	}
	k.sort()
	return k, nil
}

// decode decodes JSON. Its errors contain the position and kind of a mistake, but no content.
func decode(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &kind):
		return fmt.Errorf("docker configuration: byte %d: wrong type, want %s", kind.Offset, kind.Type.Kind())
	case errors.As(err, &syntax):
		return fmt.Errorf("docker configuration: byte %d: not JSON", syntax.Offset)
	default:
		return errors.New("docker configuration: not JSON")
	}
}

// isConfigJSON reports whether the file is a config.json without credentials. The keys of a
// .dockercfg are all registries.
func isConfigJSON(fields map[string]json.RawMessage) bool {
	for name := range fields {
		if strings.ContainsAny(name, ".:/") || name == "localhost" {
			return false
		}
	}
	return true
}

func (e dockerEntry) auth() (*runtimeapi.AuthConfig, error) {
	out := &runtimeapi.AuthConfig{
		Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken,
	}
	if e.Auth != "" {
		plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(e.Auth), "="))
		if err != nil {
			return nil, errors.New("auth is not base64")
		}
		name, password, ok := strings.Cut(string(plain), ":")
		if !ok {
			return nil, errors.New("auth is not of the form username:password")
		}
		out.Username, out.Password = name, strings.TrimRight(password, "\x00")
	}
	if out.Username == "" && out.Password == "" && out.IdentityToken == "" && out.RegistryToken == "" {
		return nil, nil
	}
	return out, nil
}
