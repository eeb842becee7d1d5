package objects

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podwright/podwright/internal/fs"
)

const (
	// maxFile bounds a file in bytes: an object with its data in base64.
	maxFile = 2 << 20
	// minAge is the age from which a file's times show all changes. Some file systems count
	// in steps of 2 s.
	minAge = 3 * time.Second
)

type stamp = fs.Stamp

// readFile reads a file, unless its stamp equals last.
func readFile(path string, last stamp) reading {
	r := fs.Reader{MaxSize: maxFile, Youngest: minAge}.Read(path, last)
	return reading{data: r.Data, stamp: r.Stamp, modTime: r.ModTime, problem: r.Problem, same: r.Same, vanished: r.Vanished}
}

type found struct {
	name   string
	folder bool
	key    fs.Key
}

type listing struct {
	found []found
	err   error
}

// listFolder lists a folder without hidden files and editors' backup files.
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
