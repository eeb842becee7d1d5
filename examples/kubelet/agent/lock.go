package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrInUse is returned by Run when another agent has the root folder.
var ErrInUse = errors.New("in use by another agent")

// lock takes the root folder for this agent until unlock is called or the
// process ends: two agents that share one would stop each other's pods.
func (f folders) lock() (unlock func() error, err error) {
	path := filepath.Join(f.root, "podwright.lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("root folder: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("root folder %s: %w%s", f.root, ErrInUse, holder(path))
		return nil, errors.Join(err, file.Close())
	}
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(file, "%d\n", os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("root folder: lock: %w", err), file.Close())
	}
	return file.Close, nil
}

// holder names the process that has the lock, if it can be told.
func holder(path string) string {
	data, err := os.ReadFile(path)
	pid := strings.TrimSpace(string(data))
	if err != nil || pid == "" {
		return ""
	}
	return ", process " + pid
}
