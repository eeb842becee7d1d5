package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images"
)

// instance is one container about to be created.
type instance struct {
	pod          *v1.Pod
	container    *v1.Container
	image        images.Image
	restartCount int32
	podIPs       []string
}

// containerConfig generates the configuration of an instance, and makes the
// directories and files that it refers to.
func (m *Manager) containerConfig(ctx context.Context, in instance) (*runtimeapi.ContainerConfig, error) {
	pod, c := in.pod, in.container
	env, err := makeEnv(pod, c, m.fields(in))
	if err != nil {
		return nil, err
	}
	annotations, err := containerAnnotations(pod, c, in.restartCount)
	if err != nil {
		return nil, err
	}
	security, err := m.containerSecurity(pod, c, in.image)
	if err != nil {
		return nil, err
	}
	mounts, err := m.mounts(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(m.podLogDir(identityOf(pod)), c.Name), 0o755); err != nil {
		return nil, fmt.Errorf("log directory: %w", err)
	}
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(in.restartCount)},
		Image:       &runtimeapi.ImageSpec{Image: in.image.Ref, UserSpecifiedImage: in.image.UserSpecified},
		Command:     env.expandAll(c.Command),
		Args:        env.expandAll(c.Args),
		WorkingDir:  c.WorkingDir,
		Envs:        env.keyValues(),
		Mounts:      mounts,
		Labels:      containerLabels(pod, c),
		Annotations: annotations,
		LogPath:     relativeLogPath(c.Name, in.restartCount),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       containerResources(pod, c, m.cfg.Node),
			SecurityContext: security,
		},
	}, nil
}

func (m *Manager) fields(in instance) fields {
	f := fields{nodeName: m.cfg.Node.Name, hostIPs: m.cfg.Node.IPs, podIPs: in.podIPs}
	if in.pod.Spec.NodeName != "" {
		f.nodeName = in.pod.Spec.NodeName
	}
	return f
}

// mounts are the caller's, and the pod's /etc/hosts and the container's
// termination message file unless something else is mounted there.
func (m *Manager) mounts(ctx context.Context, in instance) ([]*runtimeapi.Mount, error) {
	var out []*runtimeapi.Mount
	var err error
	switch {
	case m.cfg.Mounts != nil:
		if out, err = m.cfg.Mounts(ctx, in.pod, in.container); err != nil {
			return nil, err
		}
	case len(in.container.VolumeMounts) > 0:
		return nil, errors.New("volumeMounts: this agent has no volumes")
	}
	free := func(path string) bool {
		return m.cfg.PodDir != nil && !slices.ContainsFunc(out, func(mount *runtimeapi.Mount) bool { return mount.ContainerPath == path })
	}
	if free(hostsPath) && (len(in.podIPs) > 0 || in.pod.Spec.HostNetwork) {
		file, err := m.writeHosts(in.pod, in.podIPs)
		if err != nil {
			return nil, err
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: hostsPath, HostPath: file})
	}
	if path := in.container.TerminationMessagePath; path != "" && free(path) {
		file, err := m.makeTerminationFile(in.pod.UID, in.container.Name, in.restartCount)
		if err != nil {
			return nil, err
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: path, HostPath: file})
	}
	return out, nil
}
