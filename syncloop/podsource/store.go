package podsource

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fs"
)

// store keeps the last good version of each manifest in a folder, so that a pod survives a
// manifest that is broken when the agent starts. A store without a folder has no effect.
type store struct {
	dir    string
	decode func(path string, data []byte) (*v1.Pod, error)
}

func (s store) name(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16]) + ".manifest"
}

// save stores a good version. It is on the disk when save returns.
func (s store) save(path string, data []byte) error {
	if s.dir == "" {
		return nil
	}
	file := filepath.Join(s.dir, s.name(path))
	if old, err := os.ReadFile(file); err == nil && string(old) == string(data) {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return fs.WriteAtomic(file, data, 0o600)
}

func (s store) has(path string) bool {
	if s.dir == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(s.dir, s.name(path)))
	return err == nil
}

// load returns the pod of the last good version of a manifest, or nil. A version that a newer
// agent refuses is ignored.
func (s store) load(path string) *v1.Pod {
	if s.dir == "" {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(s.dir, s.name(path)))
	if err != nil {
		return nil
	}
	pod, err := s.decode(path, data)
	if err != nil {
		return nil
	}
	return pod
}

func (s store) retain(paths map[string]bool) error {
	if s.dir == "" {
		return nil
	}
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	wanted := make(map[string]bool, len(paths))
	for path := range paths {
		wanted[s.name(path)] = true
	}
	var errs []error
	for _, e := range entries {
		if !wanted[e.Name()] {
			errs = append(errs, os.Remove(filepath.Join(s.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}
