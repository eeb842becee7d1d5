package fake

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// reference is an image name in its parts.
type reference struct {
	repository  string // with its registry: "docker.io/library/busybox"
	tag, digest string
}

func (r reference) String() string {
	name := r.repository
	if r.tag != "" {
		name += ":" + r.tag
	}
	if r.digest != "" {
		name += "@" + r.digest
	}
	return name
}

const (
	defaultRegistry = "docker.io"
	defaultOwner    = "library/"
	defaultTag      = "latest"
	maxTag          = 128
)

// parseReference reads an image name and completes it the way runtimes do: the
// registry is docker.io and the tag latest where there is none.
func parseReference(name string) (reference, error) {
	var r reference
	rest, digest, pinned := strings.Cut(name, "@")
	r.repository, r.digest = rest, digest
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		r.repository, r.tag = rest[:i], rest[i+1:]
		if !validTag(r.tag) {
			return r, fmt.Errorf("invalid reference format: tag %q", r.tag)
		}
	} else if !pinned {
		r.tag = defaultTag
	}
	if pinned && !isDigest(digest) {
		return r, fmt.Errorf("invalid reference format: digest %q is not sha256:<64 hex>", digest)
	}
	registry, path, found := strings.Cut(r.repository, "/")
	if !found || (!strings.ContainsAny(registry, ".:") && registry != "localhost") {
		registry, path = defaultRegistry, r.repository
	}
	if err := checkPath(path); err != nil {
		return r, err
	}
	if registry == defaultRegistry && !strings.Contains(path, "/") {
		path = defaultOwner + path
	}
	r.repository = registry + "/" + path
	return r, nil
}

// checkPath checks the part of a name below the registry.
func checkPath(path string) error {
	for _, part := range strings.Split(path, "/") {
		if strings.ToLower(part) != part {
			return fmt.Errorf("invalid reference format: repository name (%s) must be lowercase", path)
		}
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "" ||
			strings.ContainsAny(part, " \t\n:") || strings.ContainsAny(part[:1]+part[len(part)-1:], "._-") {
			return errors.New("invalid reference format")
		}
	}
	return nil
}

func validTag(tag string) bool {
	if tag == "" || len(tag) > maxTag || tag[0] == '.' || tag[0] == '-' {
		return false
	}
	for _, c := range tag {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return true
}

// normalize completes an image name: "busybox" is
// "docker.io/library/busybox:latest".
func normalize(name string) (string, error) {
	r, err := parseReference(name)
	return r.String(), err
}

// completedNames remembers complete names: few are asked for again and again. The
// zero value is ready. Safe for concurrent use.
type completedNames struct {
	mu sync.RWMutex
	of map[string]string
}

// maxCompletedNames bounds what is remembered.
const maxCompletedNames = 1000

// complete is the name under which an image is found that is called name. Of a tag
// and a digest the digest says which.
func (c *completedNames) complete(name string) (string, error) {
	c.mu.RLock()
	known, ok := c.of[name]
	c.mu.RUnlock()
	if ok {
		return known, nil
	}
	r, err := parseReference(name)
	if err != nil {
		return "", err
	}
	if r.digest != "" {
		r.tag = ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil || len(c.of) >= maxCompletedNames {
		c.of = map[string]string{}
	}
	c.of[name] = r.String()
	return c.of[name], nil
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// isDigest tells an image ID or digest from a name.
func isDigest(ref string) bool {
	rest, ok := strings.CutPrefix(ref, "sha256:")
	return ok && len(rest) == 2*sha256.Size && strings.Trim(rest, "0123456789abcdef") == ""
}

func validateImage(image Image) error {
	if image.Name == "" {
		return errors.New("field Name is missing")
	}
	if _, err := parseReference(image.Name); err != nil {
		return fmt.Errorf("field Name: %q: %w", image.Name, err)
	}
	switch {
	case image.ID != "" && !isDigest(image.ID):
		return fmt.Errorf("field ID: %q of %s is not sha256:<64 hex>", image.ID, image.Name)
	case image.Digest != "" && !isDigest(image.Digest):
		return fmt.Errorf("field Digest: %q of %s is not sha256:<64 hex>", image.Digest, image.Name)
	case image.UID != nil && image.Username != "":
		return fmt.Errorf("%s has both UID and Username", image.Name)
	}
	return nil
}

// complete fills in what a valid image leaves out.
func complete(image Image) (Image, reference) {
	r, _ := parseReference(image.Name)
	image.Name = r.String()
	if image.ID == "" {
		image.ID = digestOf("image " + image.Name)
	}
	if image.Digest == "" {
		image.Digest = r.digest
	}
	if image.Digest == "" {
		image.Digest = digestOf("manifest " + image.ID)
	}
	setDefault(&image.Size, 1<<20)
	return image, r
}
