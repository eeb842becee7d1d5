package fs

import (
	"errors"
	"io/fs"
	"os"
)

// List lists a folder. A folder that does not exist is empty.
func List(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// RemoveOne removes a file or an empty folder, if it exists.
func RemoveOne(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
