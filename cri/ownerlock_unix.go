//go:build unix

package cri

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Lock locks the owner's name on the runtime behind an endpoint, until the file is closed or the
// process ends. Two agents with one owner would stop each other's pods. The lock is a file beside
// the socket, such as /run/containerd/containerd.sock.edge.lock. If another process has the lock,
// the error wraps ErrOwnerInUse.
func (o Owner) Lock(endpoint string) (*os.File, error) {
	socket, err := ParseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	path := socket + "." + o.String() + ".lock"
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock of owner %s: %w", o, err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrOwnerInUse
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock of owner %s: %s: %w", o, path, err), file.Close())
	}
	return file, nil
}
