// Package foldername says in one way what can be the name of a folder: names that come
// from pods and objects become parts of paths, and none may lead elsewhere.
package foldername

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Longest is how many bytes a name has at most on Linux.
const Longest = 255

// Check refuses what is not the name of one entry of a folder: what is empty or too
// long, "." and "..", and what has a slash or a zero byte in it. The error says what it
// is, with its package ("volume: the pod's UID"), and quotes it.
func Check(what, name string) error {
	if name == "." || len(name) > Longest || !filepath.IsLocal(name) || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%s: %.300q is no name of a folder", what, name)
	}
	return nil
}
