package pods

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// writeHosts writes the file that all containers of a pod share. It is written
// in place: containers that run have it mounted.
func (m *Manager) writeHosts(pod *v1.Pod, ips []string) (string, error) {
	content, err := m.builder.Hosts(pod, ips)
	if err != nil {
		return "", fmt.Errorf("hosts file: %w", err)
	}
	path := filepath.Join(m.cfg.PodDir(pod.UID), "etc-hosts")
	if holds(path, content) {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", fmt.Errorf("hosts file: %w", err)
	}
	if err := writePlain(path, content); err != nil {
		return "", fmt.Errorf("hosts file: %w", err)
	}
	return path, nil
}

// plainFlags open a file itself: neither what a link leads to, nor the other end of a pipe,
// for which one would wait. A container that sees the folder can put there either.
const plainFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK

func writePlain(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|plainFlags, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Chmod(0o644), f.Close()) // whatever the umask is
}

// holds tells whether a file has this content. It reads no more than it takes to
// know: containers write to the file what they like, and as much.
func holds(path string, content []byte) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|plainFlags, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	have, err := io.ReadAll(io.LimitReader(f, int64(len(content))+1))
	return err == nil && bytes.Equal(have, content)
}
