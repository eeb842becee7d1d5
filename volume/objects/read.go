package objects

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podwright/podwright/internal/fs"
)

const (
	// maxFile is the most bytes of a file: an object with its data in base64.
	maxFile = 2 << 20
	// youngest is how old a file must be before its times tell whether it has changed:
	// some file systems count in steps of 2 s.
	youngest = 3 * time.Second
)

// stamp is what a file system says about one version of a file.
type stamp = fs.Stamp

// readFile reads a file, unless it has the stamp that is known.
func readFile(path string, known stamp) reading {
	r := fs.Reader{MaxSize: maxFile, Youngest: youngest}.Read(path, known)
	return reading{data: r.Data, stamp: r.Stamp, modTime: r.ModTime, problem: r.Problem, same: r.Same, vanished: r.Vanished}
}

// found is an entry of a folder.
type found struct {
	name   string
	folder bool
	key    fs.Key
}

// listing is the result of listing a folder.
type listing struct {
	found []found
	err   error
}

// listFolder lists a folder, without hidden files and copies that editors keep.
func listFolder(path string) listing {
	entries, err := os.ReadDir(path)
	if err != nil {
		return listing{err: err}
	}
	out := make([]found, 0, len(entries))
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") {
			continue
		}
		out = append(out, found{name, e.IsDir(), fs.KeyOf(filepath.Join(path, name), e)})
	}
	return listing{found: out}
}

func join(root, path string) string { return filepath.Join(root, filepath.FromSlash(path)) }
