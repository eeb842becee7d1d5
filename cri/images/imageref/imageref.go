package imageref

import (
	_ "crypto/sha256" // for digests
	_ "crypto/sha512"
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// Name is a parsed image name.
type Name struct {
	// Repository is the optional domain with port, and the path, as written:
	// "registry.example.com:5000/team/app", "busybox".
	Repository string
	// Tag is the part after the colon, or "".
	Tag string
	// Digest is the part after the at sign, such as "sha256:<64 hex digits>", or "".
	Digest string

	canonical string
}

// String returns the name as text.
func (n Name) String() string {
	s := n.Repository
	if n.Tag != "" {
		s += ":" + n.Tag
	}
	if n.Digest != "" {
		s += "@" + n.Digest
	}
	return s
}

// Parse parses an image name by the grammar of github.com/distribution/reference:
//
//	[domain[:port]/]component[/component...][:tag][@digest]
//
// It adds neither a registry nor a tag.
func Parse(s string) (Name, error) {
	named, err := reference.ParseNormalizedNamed(s)
	if err == nil && reference.Domain(named) == "" { // it parsed a bad domain as a component
		err = reference.ErrReferenceInvalidFormat
	}
	if err != nil {
		return Name{}, fmt.Errorf("image name %q: %w", s, err)
	}
	name := Name{canonical: named.Name()}
	if tagged, ok := named.(reference.Tagged); ok {
		name.Tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		name.Digest = digested.Digest().String()
	}
	name.Repository = strings.TrimSuffix(strings.TrimSuffix(s, "@"+name.Digest), ":"+name.Tag)
	return name, nil
}

// Normalize returns the name for inspecting and pulling an image. It appends ":latest" to a name
// with neither tag nor digest.
func Normalize(s string) (string, error) {
	name, err := Parse(s)
	if err != nil {
		return "", err
	}
	return name.Normal().String(), nil
}

// Normal returns the name, with the tag "latest" if it has neither tag nor digest.
func (n Name) Normal() Name {
	if n.Tag == "" && n.Digest == "" {
		n.Tag = "latest"
	}
	return n
}

// Canonical returns the repository as runtimes list it: "docker.io/library/busybox" for "busybox".
func (n Name) Canonical() string { return n.canonical }

// Full returns the name as runtimes list it: Canonical with the digest, or else with the tag, by
// default "latest". It is equal for two spellings of one name.
func (n Name) Full() string {
	if n.Digest != "" {
		return n.canonical + "@" + n.Digest
	}
	return n.canonical + ":" + n.Normal().Tag
}

// OnDefaultRegistry reports whether the name's registry is the default, written or omitted.
func (n Name) OnDefaultRegistry() bool {
	return strings.HasPrefix(n.canonical, "docker.io/")
}
