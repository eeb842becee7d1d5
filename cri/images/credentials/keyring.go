package credentials

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/podwright/podwright/cri/images/imageref"
)

// Keyring contains credentials for registries and finds those for an image. Its zero value is
// empty. It is immutable and safe for concurrent use.
type Keyring struct {
	keys []key // the most specific first
}

type key struct {
	// place is a registry with an optional path prefix: "*.example.com:5000/team".
	place string
	cred  Credential
}

// dockerHub is the registry of images whose names have none.
const dockerHub = "index.docker.io"

// add adds a credential for a server, after existing ones for the same place. The caller must sort
// afterwards.
func (k *Keyring) add(server string, c Credential) {
	if place := placeOf(server); place != "" {
		k.keys = append(k.keys, key{place: place, cred: c})
	}
}

// merge joins keyrings. For the same place, keys of earlier keyrings come first.
func merge(rings ...Keyring) Keyring {
	var out Keyring
	for _, ring := range rings {
		out.keys = append(out.keys, ring.keys...)
	}
	out.sort()
	return out
}

// sort orders longer places before their prefixes, and exact places before patterns.
func (k *Keyring) sort() {
	slices.SortStableFunc(k.keys, func(a, b key) int { return cmp.Compare(b.place, a.place) })
}

func (k Keyring) from(o Origin) Keyring {
	out := Keyring{keys: slices.Clone(k.keys)}
	for i := range out.keys {
		out.keys[i].cred.Origin = o
	}
	return out
}

// placeOf returns the part of a server's address that is compared with images. An API version as
// path means the whole registry.
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

// Lookup returns the credentials for an image, those for the most specific place first.
func (k Keyring) Lookup(image string) []Credential {
	found := k.matching(image)
	if len(found) == 0 && onDockerHub(image) {
		found = k.matching(dockerHub + "/" + strings.TrimPrefix(image, "docker.io/"))
	}
	return found
}

func (k Keyring) matching(image string) []Credential {
	var out []Credential
	for _, key := range k.keys {
		if matches(key.place, image) {
			out = append(out, key.cred)
		}
	}
	return out
}

// matches reports whether an image matches a place: the same port, the same number of host parts,
// and the path prefix. Each host part of a place may be a pattern.
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

// onDockerHub reports whether the image's registry is the default, written or omitted.
func onDockerHub(image string) bool {
	name, err := imageref.Parse(image)
	return err == nil && name.OnDefaultRegistry()
}

// checkPlace returns an error for an invalid place in a configuration.
func checkPlace(server string) error {
	place := placeOf(server)
	if place == "" {
		return errors.New("missing registry")
	}
	u, err := url.Parse("//" + place)
	switch {
	case err != nil:
		return errors.New("want a registry, optionally with a path")
	case strings.Contains(u.Path, "*") || strings.Contains(u.Port(), "*"):
		return errors.New("patterns are allowed in the registry's name only")
	}
	for pattern := range strings.SplitSeq(u.Hostname(), ".") {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("invalid pattern %q", pattern)
		}
	}
	return nil
}
