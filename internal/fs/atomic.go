package fs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// WriteAtomic replaces the file at path. It writes and syncs a temporary file beside it, renames
// it and syncs the folder, so that neither kill -9 nor a power cut leaves a partial file under
// that name. A temporary file may stay: see RemoveTemporary.
func WriteAtomic(path string, data []byte, perm os.FileMode) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, temporary(path)+"*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if _, err = tmp.Write(data); err != nil {
		return err
	}
	if err = tmp.Chmod(perm); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// temporary returns the start of the names of temporary files.
func temporary(path string) string { return "." + filepath.Base(path) + ".tmp-" }

// RemoveTemporary removes the temporary files that interrupted calls of WriteAtomic have left. No
// such call may run for this path.
func RemoveTemporary(path string) error {
	entries, err := List(filepath.Dir(path))
	errs := []error{err}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), temporary(path)) {
			errs = append(errs, RemoveOne(filepath.Join(filepath.Dir(path), e.Name())))
		}
	}
	return errors.Join(errs...)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
