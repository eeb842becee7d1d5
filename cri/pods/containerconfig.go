package pods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/internal/fs"
)

// containerConfig returns the configuration of a new container and makes the directories and
// files that it refers to.
func (m *Manager) containerConfig(ctx context.Context, in request.Instance) (*runtimeapi.ContainerConfig, error) {
	if err := m.makeFiles(&in); err != nil {
		return nil, err
	}
	config, err := m.builder.Container(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := m.files.MakeLogDir(identityOf(in.Pod).Pod, in.Container.Name); err != nil {
		return nil, fmt.Errorf("log directory: %w", err)
	}
	return config, nil
}

// makeFiles makes the agent's files that are mounted into the container, except at paths where
// the container mounts a volume of its own.
func (m *Manager) makeFiles(in *request.Instance) error {
	free := func(path string) bool { return m.cfg.PodDir != nil && !request.MountsAt(in.Container, path) }
	var err error
	if free(request.HostsPath) && (len(in.PodIPs) > 0 || in.Pod.Spec.HostNetwork) {
		if in.HostsFile, err = m.writeHosts(in.Pod, in.PodIPs); err != nil {
			return err
		}
	}
	if path := in.Container.TerminationMessagePath; path != "" && free(path) {
		in.TerminationFile, err = m.files.MakeTerminationFile(in.Pod.UID, in.Container.Name, in.RestartCount)
	}
	return err
}

// writeHosts writes the hosts file that all containers of a pod share. It writes in place,
// because running containers have it mounted.
func (m *Manager) writeHosts(pod *v1.Pod, ips []string) (string, error) {
	content, err := m.builder.Hosts(pod, ips)
	if err != nil {
		return "", fmt.Errorf("hosts file: %w", err)
	}
	path := filepath.Join(m.cfg.PodDir(pod.UID), "etc-hosts")
	if hasContent(path, content) {
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

func writePlain(path string, content []byte) error {
	f, err := fs.OpenPlain(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Chmod(0o644), f.Close()) // not subject to the umask
}

// hasContent reports whether a file has this content. It reads at most one byte more than the content,
// because containers can write to the file without limit.
func hasContent(path string, content []byte) bool {
	f, err := fs.OpenPlain(path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	have, err := io.ReadAll(io.LimitReader(f, int64(len(content))+1))
	return err == nil && bytes.Equal(have, content)
}
