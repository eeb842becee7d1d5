package network

import (
	"fmt"
	"regexp"
)

const defaultVersion = "1.36"

// Version returns the "major.minor" for the User-Agent: the configured one, by default 1.36. It
// returns an error for another format.
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
