package fake

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"

	"github.com/podwright/podwright/internal/fields"
)

// normalize completes an image name: "busybox" becomes "docker.io/library/busybox:latest".
func normalize(name string) (string, error) {
	r, err := parseReference(name)
	if err != nil {
		return "", err
	}
	return r.String(), nil
}

// parseReference parses an image name and completes it as runtimes do. The tag is latest if the
// name has neither tag nor digest.
func parseReference(name string) (reference.Named, error) {
	r, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return nil, err
	}
	return reference.TagNameOnly(r), nil
}

func digestIn(r reference.Named) string {
	if d, ok := r.(reference.Digested); ok {
		return d.Digest().String()
	}
	return ""
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// isDigest reports whether ref is an image ID or digest, not a name.
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

// complete sets the missing fields of a valid image.
func complete(image Image) (Image, reference.Named) {
	r, _ := parseReference(image.Name)
	image.Name = r.String()
	if image.ID == "" {
		image.ID = digestOf("image " + image.Name)
	}
	if image.Digest == "" {
		image.Digest = digestIn(r)
	}
	if image.Digest == "" {
		image.Digest = digestOf("manifest " + image.ID)
	}
	fields.Default(&image.Size, 1<<20)
	return image, r
}
