package pods

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

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
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return "", fmt.Errorf("hosts file: %w", err)
	}
	if err := os.Chmod(path, 0o644); err != nil { // whatever the umask is
		return "", fmt.Errorf("hosts file: %w", err)
	}
	return path, nil
}

// holds tells whether a file has this content. It reads no more than it takes to
// know: containers write to the file what they like, and as much.
func holds(path string, content []byte) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	have, err := io.ReadAll(io.LimitReader(f, int64(len(content))+1))
	return err == nil && bytes.Equal(have, content)
}
