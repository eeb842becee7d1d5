package pods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/request"
)

// podIPs are the addresses that containers of the pod are told.
func (m *Manager) podIPs(pod *v1.Pod, observed []string) []string {
	return m.builder.PodIPs(pod, observed)
}

// instance is one container about to be created.
type instance struct {
	pod          *v1.Pod
	container    *v1.Container
	image        images.Image
	restartCount int32
	podIPs       []string
	// targetID is the container whose processes an ephemeral one sees, if any.
	targetID string
	// imageVolumes are the images of its image volumes by volume name.
	imageVolumes map[string]images.Image
}

// containerConfig generates the configuration of an instance, and makes the
// directories and files that it refers to.
func (m *Manager) containerConfig(ctx context.Context, in instance) (*runtimeapi.ContainerConfig, error) {
	r := request.Instance{
		Pod: in.pod, Container: in.container, RestartCount: in.restartCount, PodIPs: in.podIPs,
		Image:        request.Image{Ref: in.image.Ref, UserSpecified: in.image.UserSpecified, UID: in.image.UID, Username: in.image.Username},
		TargetID:     in.targetID,
		ImageVolumes: make(map[string]request.Image, len(in.imageVolumes)),
	}
	for name, image := range in.imageVolumes {
		r.ImageVolumes[name] = request.Image{Ref: image.Ref, UserSpecified: image.UserSpecified}
	}
	if err := m.makeFiles(in, &r); err != nil {
		return nil, err
	}
	config, err := m.builder.Container(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(m.files.LogDir(identityOf(in.pod).Pod), in.container.Name), 0o755); err != nil {
		return nil, fmt.Errorf("log directory: %w", err)
	}
	return config, nil
}

// makeFiles makes the files of the agent that the container has mounted, unless
// it mounts something else in their place.
func (m *Manager) makeFiles(in instance, r *request.Instance) error {
	free := func(path string) bool { return m.cfg.PodDir != nil && !request.MountsAt(in.container, path) }
	var err error
	if free(request.HostsPath) && (len(in.podIPs) > 0 || in.pod.Spec.HostNetwork) {
		if r.HostsFile, err = m.writeHosts(in.pod, in.podIPs); err != nil {
			return err
		}
	}
	if path := in.container.TerminationMessagePath; path != "" && free(path) {
		r.TerminationFile, err = m.files.MakeTerminationFile(in.pod.UID, in.container.Name, in.restartCount)
	}
	return err
}
