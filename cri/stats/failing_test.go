package stats

import (
	"io/fs"
	"testing/fstest"
)

// FailingFS has one file or link that cannot be read. It has a public name for those
// tests that stand outside of the package.
type FailingFS struct {
	fstest.MapFS
	Name string
	Err  error
}

func (f FailingFS) ReadFile(name string) ([]byte, error) {
	if name == f.Name {
		return nil, &fs.PathError{Op: "read", Path: name, Err: f.Err}
	}
	return f.MapFS.ReadFile(name)
}

func (f FailingFS) ReadLink(name string) (string, error) {
	if name == f.Name {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: f.Err}
	}
	return f.MapFS.ReadLink(name)
}
