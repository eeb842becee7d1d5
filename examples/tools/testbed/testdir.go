package main

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const testDirPattern = "podwright-tests-*"

// newTestDir returns a new temporary folder and its lock. The lock ends with the returned file or
// with this process. newTestDir removes unlocked folders, which belong to killed processes.
func newTestDir() (string, *os.File, error) {
	old, err := filepath.Glob(filepath.Join(os.TempDir(), testDirPattern))
	if err != nil {
		return "", nil, err
	}
	for _, dir := range old {
		if lock, err := lockDir(dir); err == nil {
			_ = os.RemoveAll(dir)
			lock.Close()
		}
	}
	dir, err := os.MkdirTemp("", testDirPattern)
	if err != nil {
		return "", nil, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return "", nil, err
	}
	return dir, lock, os.Chmod(dir, 0o755) // tests run its programs as other users
}

// lockDir fails if another process holds the lock of the folder.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	return f, nil
}
