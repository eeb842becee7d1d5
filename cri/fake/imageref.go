package fake

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// withTag completes an image name: ":latest" where it has neither tag nor digest.
func withTag(name string) string {
	if strings.Contains(name, "@") || strings.Contains(lastPart(name), ":") {
		return name
	}
	return name + ":latest"
}

// repository cuts tag and digest off an image name.
func repository(name string) string {
	name, _, _ = strings.Cut(name, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		return name[:i]
	}
	return name
}

func lastPart(name string) string {
	return name[strings.LastIndexByte(name, '/')+1:]
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// isDigest tells an image ID or digest from a name.
func isDigest(ref string) bool {
	return strings.HasPrefix(ref, "sha256:") && len(ref) == len("sha256:")+2*sha256.Size
}

func validateImage(image Image) error {
	switch {
	case image.Name == "":
		return errors.New("field Name is missing")
	case strings.ContainsAny(image.Name, " \t\n"):
		return fmt.Errorf("field Name: %q has blanks in it", image.Name)
	case image.ID != "" && !isDigest(image.ID):
		return fmt.Errorf("field ID: %q of %s is not sha256:<64 hex>", image.ID, image.Name)
	case image.Digest != "" && !isDigest(image.Digest):
		return fmt.Errorf("field Digest: %q of %s is not sha256:<64 hex>", image.Digest, image.Name)
	case image.UID != nil && image.Username != "":
		return fmt.Errorf("%s has both UID and Username", image.Name)
	}
	return nil
}

// complete fills in what an image leaves out.
func complete(image Image) Image {
	image.Name = withTag(image.Name)
	if image.ID == "" {
		image.ID = digestOf("image " + image.Name)
	}
	if image.Digest == "" {
		image.Digest = digestOf("manifest " + image.ID)
		if _, digest, pinned := strings.Cut(image.Name, "@"); pinned {
			image.Digest = digest
		}
	}
	setDefault(&image.Size, 1<<20)
	return image
}
