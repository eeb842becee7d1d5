package network

import (
	"fmt"
	"regexp"
)

// defaultVersion is the Kubernetes version whose behaviour the probers have.
const defaultVersion = "1.36"

// Version is the version that probers tell servers: the "major.minor" that they are
// configured with, 1.36 if there is none.
func Version(configured string) (string, error) {
	switch ok, _ := regexp.MatchString(`^[0-9]+\.[0-9]+\+?$`, configured); {
	case configured == "":
		return defaultVersion, nil
	case !ok:
		return "", fmt.Errorf("is not major.minor: %q", configured)
	default:
		return configured, nil
	}
}
