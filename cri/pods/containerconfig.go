package pods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/request"
)

// containerConfig generates the configuration of a container that is about to be created,
// and makes the directories and files that it refers to.
func (m *Manager) containerConfig(ctx context.Context, in request.Instance) (*runtimeapi.ContainerConfig, error) {
	if err := m.makeFiles(&in); err != nil {
		return nil, err
	}
	config, err := m.builder.Container(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(m.files.LogDir(identityOf(in.Pod).Pod), in.Container.Name), 0o755); err != nil {
		return nil, fmt.Errorf("log directory: %w", err)
	}
	return config, nil
}

// makeFiles makes the files of the agent that the container has mounted, unless
// it mounts something else in their place.
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
