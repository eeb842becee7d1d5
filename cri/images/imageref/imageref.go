package imageref

import (
	_ "crypto/sha256" // for digests
	_ "crypto/sha512"
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// Name is an image name taken apart: repository, tag and digest.
type Name struct {
	// Repository is the optional domain with port and the path, as written:
	// "registry.example.com:5000/team/app", "busybox".
	Repository string
	// Tag is what follows the colon, "" when there is none.
	Tag string
	// Digest is what follows the at sign, such as "sha256:<64 hex digits>", ""
	// when there is none.
	Digest string

	canonical string
}

// String puts the name together again.
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

// Parse takes an image name apart, by the grammar of github.com/distribution/reference:
//
//	[domain[:port]/]component[/component...][:tag][@digest]
//
// It completes nothing: neither a registry nor a tag is added.
func Parse(s string) (Name, error) {
	named, err := reference.ParseNormalizedNamed(s)
	if err == nil && reference.Domain(named) == "" { // it took a bad domain for a component
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

// Normalize returns the name under which an image is looked up and pulled:
// ":latest" is appended to a name with neither tag nor digest, nothing else is
// changed.
func Normalize(s string) (string, error) {
	name, err := Parse(s)
	if err != nil {
		return "", err
	}
	return name.Normal().String(), nil
}

// Normal is the name with the tag ":latest" if it has neither tag nor digest.
func (n Name) Normal() Name {
	if n.Tag == "" && n.Digest == "" {
		n.Tag = "latest"
	}
	return n
}

// Canonical is the repository as runtimes list it: "busybox" becomes
// "docker.io/library/busybox".
func (n Name) Canonical() string { return n.canonical }

// Full is the whole name as runtimes list it: Canonical with the digest if there is
// one, else with the tag, which is "latest" by default. Two names of one image in one
// place have the same.
func (n Name) Full() string {
	if n.Digest != "" {
		return n.canonical + "@" + n.Digest
	}
	return n.canonical + ":" + n.Normal().Tag
}

// OnDefaultRegistry tells whether a name leaves out the registry, or spells out
// the one that it stands for.
func (n Name) OnDefaultRegistry() bool {
	return strings.HasPrefix(n.canonical, "docker.io/")
}
