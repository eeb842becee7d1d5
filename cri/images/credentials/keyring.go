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

// Keyring holds credentials for registries, and finds those for an image. Its
// zero value is empty. It is not changed once it is made, and safe for concurrent
// use.
type Keyring struct {
	keys []key // the most specific ones first
}

// key is what one entry opens.
type key struct {
	// place is a registry with or without the beginning of a path:
	// "*.example.com:5000/team".
	place string
	cred  Credential
}

// dockerHub is the registry of images whose names do not begin with one.
const dockerHub = "index.docker.io"

// add adds what opens a server, behind what is there for the same place. sort is to
// follow the last one.
func (k *Keyring) add(server string, c Credential) {
	if place := placeOf(server); place != "" {
		k.keys = append(k.keys, key{place: place, cred: c})
	}
}

// merge joins keyrings. Where two have a key for one place, that of the earlier
// comes first.
func merge(rings ...Keyring) Keyring {
	var out Keyring
	for _, ring := range rings {
		out.keys = append(out.keys, ring.keys...)
	}
	out.sort()
	return out
}

// sort puts longer places before their beginnings, and those without a pattern
// before those with one.
func (k *Keyring) sort() {
	slices.SortStableFunc(k.keys, func(a, b key) int { return cmp.Compare(b.place, a.place) })
}

// from gives all keys an origin.
func (k Keyring) from(o Origin) Keyring {
	out := Keyring{keys: slices.Clone(k.keys)}
	for i := range out.keys {
		out.keys[i].cred.Origin = o
	}
	return out
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

// onDockerHub tells whether a name leaves out the registry, or spells out the one
// that it stands for.
func onDockerHub(image string) bool {
	name, err := imageref.Parse(image)
	return err == nil && name.OnDefaultRegistry()
}

// checkPlace tells what is wrong with a place that somebody configured.
func checkPlace(server string) error {
	place := placeOf(server)
	if place == "" {
		return errors.New("no registry")
	}
	u, err := url.Parse("//" + place)
	switch {
	case err != nil:
		return errors.New("not a registry with or without the beginning of a path")
	case strings.Contains(u.Path, "*") || strings.Contains(u.Port(), "*"):
		return errors.New("only the parts of the registry's name may be patterns")
	}
	for pattern := range strings.SplitSeq(u.Hostname(), ".") {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%q is not a pattern", pattern)
		}
	}
	return nil
}
