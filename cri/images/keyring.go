package images

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Keyring holds credentials for registries, and finds those for an image. Its
// zero value is empty.
type Keyring struct {
	keys []key // the most specific ones first
}

// key is what one entry of a docker configuration opens.
type key struct {
	// place is a registry with or without the beginning of a path:
	// "*.example.com:5000/team".
	place string
	auth  *runtimeapi.AuthConfig
}

// dockerHub is the registry of images whose names do not begin with one.
const dockerHub = "index.docker.io"

// dockerEntry is an entry of a docker configuration.
type dockerEntry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"` // base64 of username:password
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// ParseDockerConfig reads a docker configuration: config.json, with its entries
// below "auths", or the older .dockercfg, which has nothing else. Credential
// helpers that it names are not asked. Errors name the registry, never what is
// secret.
func ParseDockerConfig(data []byte) (Keyring, error) {
	var file struct {
		Auths map[string]dockerEntry `json:"auths"`
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return Keyring{}, fmt.Errorf("docker configuration: %w", err)
	}
	var err error
	if _, ok := fields["auths"]; ok {
		err = json.Unmarshal(data, &file)
	} else if !isConfigJSON(fields) {
		err = json.Unmarshal(data, &file.Auths)
	}
	if err != nil {
		return Keyring{}, fmt.Errorf("docker configuration: %w", err)
	}
	var k Keyring
	for server, entry := range file.Auths {
		auth, err := entry.auth()
		if err != nil {
			return Keyring{}, fmt.Errorf("docker configuration: %s: %w", server, err)
		}
		place := placeOf(server)
		if auth == nil || place == "" {
			continue
		}
		k.keys = append(k.keys, key{place: place, auth: auth})
	}
	slices.SortFunc(k.keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(b.place, a.place), cmp.Compare(a.auth.Username, b.auth.Username))
	})
	return k, nil
}

// isConfigJSON tells a config.json without credentials from a .dockercfg, whose
// keys are all registries.
func isConfigJSON(fields map[string]json.RawMessage) bool {
	for name := range fields {
		if strings.ContainsAny(name, ".:/") || name == "localhost" {
			return false
		}
	}
	return true
}

// auth returns what to show the registry, nil for an entry without anything.
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

// placeOf is the part of a server's address that images are compared with. The
// versions of the registry's interface mean the whole registry.
func placeOf(server string) string {
	server = strings.TrimPrefix(strings.TrimPrefix(server, "https://"), "http://")
	host, rest, _ := strings.Cut(server, "/")
	if first, after, _ := strings.Cut(rest, "/"); first == "v1" || first == "v2" {
		rest = after
	}
	if rest = strings.Trim(rest, "/"); rest == "" {
		return host
	}
	return host + "/" + rest
}

// Lookup returns the credentials that may open an image, those for the most
// specific place first.
func (k Keyring) Lookup(image string) []*runtimeapi.AuthConfig {
	found := k.matching(image)
	if len(found) == 0 && onDockerHub(image) {
		found = k.matching(dockerHub + "/" + strings.TrimPrefix(image, "docker.io/"))
	}
	return found
}

func (k Keyring) matching(image string) []*runtimeapi.AuthConfig {
	var out []*runtimeapi.AuthConfig
	for _, key := range k.keys {
		if matches(key.place, image) {
			out = append(out, key.auth)
		}
	}
	return out
}

// onDockerHub tells whether a name leaves out the registry, or spells out the one
// that it stands for.
func onDockerHub(image string) bool {
	first, _, more := strings.Cut(image, "/")
	return !more || first == "docker.io" || !looksLikeDomain(first)
}

// matches compares an image with a place: the same port, the same number of
// parts in the host, each of which may be a pattern, and the beginning of a path.
func matches(place, image string) bool {
	want, err := url.Parse("//" + place)
	if err != nil {
		return false
	}
	have, err := url.Parse("//" + image)
	if err != nil || want.Port() != have.Port() {
		return false
	}
	patterns, parts := strings.Split(want.Hostname(), "."), strings.Split(have.Hostname(), ".")
	if len(patterns) != len(parts) {
		return false
	}
	for i, pattern := range patterns {
		if ok, err := path.Match(pattern, parts[i]); err != nil || !ok {
			return false
		}
	}
	return strings.HasPrefix(have.Path, want.Path)
}
