//go:build !linux

package stats

import (
	"io/fs"
	"os"
)

// Host returns a folder of this machine: an os.DirFS.
func Host(dir string) fs.FS { return os.DirFS(dir) }
