package imageref

import (
	"fmt"
	"strings"
)

// maxNameLength bounds the repository part of an image name.
const maxNameLength = 255

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

// Parse takes an image name apart. It accepts
//
//	[domain[:port]/]component[/component...][:tag][@digest]
//
// with components of lower-case letters and digits, separated by ".", "_", "__"
// or dashes. It completes nothing: neither a registry nor a tag is added.
func Parse(s string) (Name, error) {
	name, err := splitName(s)
	if err == nil {
		err = name.check()
	}
	if err == nil && len(s) == 64 && all(s, isLowerHex) {
		err = fmt.Errorf("64 hexadecimal digits name an image ID, not an image")
	}
	if err != nil {
		return Name{}, fmt.Errorf("image name %q: %w", s, err)
	}
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

// defaultRegistry is the registry of images whose names do not begin with one, and
// defaultTeam where in it those live whose names have a single component.
const (
	defaultRegistry = "docker.io"
	defaultTeam     = "library"
)

// Canonical is the repository as runtimes list it: "busybox" becomes
// "docker.io/library/busybox".
func (n Name) Canonical() string {
	domain, path, ok := strings.Cut(n.Repository, "/")
	switch {
	case !ok || !looksLikeDomain(domain):
		domain, path = defaultRegistry, n.Repository
	case domain == "index."+defaultRegistry:
		domain = defaultRegistry
	}
	if domain == defaultRegistry && !strings.Contains(path, "/") {
		path = defaultTeam + "/" + path
	}
	return domain + "/" + path
}

// Full is the whole name as runtimes list it: Canonical with the digest if there is
// one, else with the tag, which is "latest" by default. Two names of one image in one
// place have the same.
func (n Name) Full() string {
	if n.Digest != "" {
		return n.Canonical() + "@" + n.Digest
	}
	return n.Canonical() + ":" + n.Normal().Tag
}

// OnDefaultRegistry tells whether a name leaves out the registry, or spells out
// the one that it stands for.
func (n Name) OnDefaultRegistry() bool {
	return strings.HasPrefix(n.Canonical(), defaultRegistry+"/")
}

func splitName(s string) (Name, error) {
	rest, digest, hasDigest := strings.Cut(s, "@")
	if hasDigest && digest == "" {
		return Name{}, fmt.Errorf("nothing follows the @")
	}
	name := Name{Repository: rest, Digest: digest}
	// A colon before the last slash belongs to a port, one after it to a tag.
	if colon := strings.LastIndexByte(rest, ':'); colon > strings.LastIndexByte(rest, '/') {
		name.Repository, name.Tag = rest[:colon], rest[colon+1:]
		if name.Tag == "" {
			return Name{}, fmt.Errorf("nothing follows the last colon")
		}
	}
	return name, nil
}

func (n Name) check() error {
	if n.Repository == "" {
		return fmt.Errorf("no repository")
	}
	if len(n.Repository) > maxNameLength {
		return fmt.Errorf("the repository has more than %d characters", maxNameLength)
	}
	if n.Tag != "" && !isTag(n.Tag) {
		return fmt.Errorf("bad tag %q", n.Tag)
	}
	if n.Digest != "" && !isDigest(n.Digest) {
		return fmt.Errorf("bad digest %q", n.Digest)
	}
	path := n.Repository
	if first, rest, ok := strings.Cut(path, "/"); ok && looksLikeDomain(first) {
		if !isDomain(first) {
			return fmt.Errorf("bad domain %q", first)
		}
		path = rest
	}
	for component := range strings.SplitSeq(path, "/") {
		if !isComponent(component) {
			return fmt.Errorf("bad repository component %q: want lower-case letters and digits, separated by one of . _ __ or dashes", component)
		}
	}
	return nil
}

// looksLikeDomain tells a registry's host from the first part of a path.
func looksLikeDomain(s string) bool {
	return strings.ContainsAny(s, ".:") || s == "localhost" || strings.ToLower(s) != s
}

func isDomain(s string) bool {
	host, port, hasPort := s, "", false
	if end := strings.LastIndexByte(s, ']'); strings.HasPrefix(s, "[") && end > 0 {
		if address := s[1:end]; address == "" || !all(address, func(c byte) bool { return isHex(c) || c == ':' }) {
			return false
		}
		host = "v6"
		port, hasPort = strings.CutPrefix(s[end+1:], ":")
		if !hasPort && port != "" {
			return false
		}
	} else {
		host, port, hasPort = strings.Cut(s, ":")
	}
	if hasPort && (port == "" || !all(port, isDigit)) {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' ||
			!all(label, func(c byte) bool { return isLetter(c) || isDigit(c) || c == '-' }) {
			return false
		}
	}
	return true
}

// isComponent wants runs of lower-case letters and digits between separators.
func isComponent(s string) bool {
	word := func(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'z' }
	for {
		end := 0
		for end < len(s) && word(s[end]) {
			end++
		}
		if end == 0 {
			return false
		}
		if s = s[end:]; s == "" {
			return true
		}
		end = 0
		for end < len(s) && !word(s[end]) {
			end++
		}
		if !isSeparator(s[:end]) {
			return false
		}
		s = s[end:]
	}
}

func isSeparator(s string) bool {
	return s == "." || s == "_" || s == "__" || all(s, func(c byte) bool { return c == '-' })
}

func isTag(s string) bool {
	return len(s) <= 128 && s[0] != '.' && s[0] != '-' &&
		all(s, func(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' || c == '.' || c == '-' })
}

func isDigest(s string) bool {
	algorithm, hex, _ := strings.Cut(s, ":")
	length := 0
	switch algorithm {
	case "sha256":
		length = 64
	case "sha384":
		length = 96
	case "sha512":
		length = 128
	}
	return length > 0 && len(hex) == length && all(hex, isLowerHex)
}

func all(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool    { return c >= '0' && c <= '9' }
func isLetter(c byte) bool   { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isLowerHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' }
func isHex(c byte) bool      { return isLowerHex(c) || c >= 'A' && c <= 'F' }
