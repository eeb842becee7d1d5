package agent

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/fs"
)

// ErrInUse is returned by Run if another agent uses the root folder.
var ErrInUse = errors.New("in use by another agent")

// errLockLost reports that the lock file was removed or replaced, so that another agent can use the
// root folder.
var errLockLost = errors.New("the root folder was removed, or its podwright.lock, while the agent runs: saved data of pods are lost, and a second agent could start with this folder; restart the agent")

// lock is the exclusive use of the root folder, until Close or the end of the process.
type lock struct{ *os.File }

// lock locks the root folder for this agent. Two agents with one root folder would stop each
// other's pods.
func (f folders) lock() (_ *lock, err error) {
	path := filepath.Join(f.root, "podwright.lock")
	file, err := fs.TryLock(path)
	if errors.Is(err, fs.ErrLocked) {
		return nil, fmt.Errorf("root folder %s: %w%s", f.root, ErrInUse, holder(path))
	}
	if err != nil {
		return nil, fmt.Errorf("root folder: %w", err)
	}
	if err = file.Truncate(0); err == nil {
		_, err = fmt.Fprintf(file, "%d\n", os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("root folder: lock: %w", err), file.Close())
	}
	return &lock{file}, nil
}

// check returns an error if the lock file was removed or replaced, or if the root folder is not
// writable.
func (l *lock) check() error {
	mine, err := l.Stat()
	if err != nil {
		return fmt.Errorf("root folder: lock: %w", err)
	}
	there, err := os.Lstat(l.Name())
	switch {
	case errors.Is(err, iofs.ErrNotExist), err == nil && !os.SameFile(mine, there):
		return fmt.Errorf("%s: %w", filepath.Dir(l.Name()), errLockLost)
	case err != nil:
		return fmt.Errorf("root folder: lock: %w", err)
	}
	root := filepath.Dir(l.Name())
	if err := unix.Access(root, unix.W_OK); err != nil {
		return fmt.Errorf("root folder %s: not writable, so that pods can neither start nor be removed: %w", root, err)
	}
	return nil
}

// holder returns a text that names the process with the lock, or "" if it is unknown.
func holder(path string) string {
	data, err := os.ReadFile(path)
	pid := strings.TrimSpace(string(data))
	if err != nil || pid == "" {
		return ""
	}
	return ", process " + pid
}
