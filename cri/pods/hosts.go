package pods

import (
	"bytes"
	"fmt"
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
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, content) {
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
