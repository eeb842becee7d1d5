package fs

import (
	"fmt"
	"path/filepath"
	"strings"
)

// LongestName is how many bytes a name has at most on Linux.
const LongestName = 255

// CheckName refuses what is not the name of one entry of a folder: what is empty or too
// long, "." and "..", and what has a slash or a zero byte in it. The error says what it
// is, with its package ("volume: the pod's UID"), and quotes it.
func CheckName(what, name string) error {
	if name == "." || len(name) > LongestName || !filepath.IsLocal(name) || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%s: %.300q is no name of a folder", what, name)
	}
	return nil
}
