package fs

import (
	"fmt"
	"path/filepath"
	"strings"
)

// LongestName is the largest length of a file name on Linux, in bytes.
const LongestName = 255

// CheckName returns an error unless name is valid for an entry of a folder: not empty, not too
// long, not "." or "..", and without a slash or a zero byte. The error begins with the given
// subject ("volume: the pod's UID") and quotes the name.
func CheckName(what, name string) error {
	if name == "." || len(name) > LongestName || !filepath.IsLocal(name) || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%s: %.300q is not a valid folder name", what, name)
	}
	return nil
}
