package agent

import (
	"context"
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/volume/hostpath"
)

// mounts turns a container's volumeMounts into binds of the runtime. hostPath is
// the one kind of volume so far; manifests with others were refused.
func mounts(_ context.Context, pod *v1.Pod, container *v1.Container) ([]*runtimeapi.Mount, error) {
	out := make([]*runtimeapi.Mount, 0, len(container.VolumeMounts))
	for i, m := range container.VolumeMounts {
		volume := findVolume(pod, m.Name)
		if volume == nil || volume.HostPath == nil {
			return nil, fmt.Errorf("volumeMounts[%d].name: no hostPath volume %q", i, m.Name)
		}
		path, err := hostpath.Prepare(volume.HostPath)
		if err != nil {
			return nil, fmt.Errorf("volume %q: %w", m.Name, err)
		}
		out = append(out, &runtimeapi.Mount{
			HostPath:      path,
			ContainerPath: filepath.Clean(m.MountPath),
			Readonly:      m.ReadOnly,
			Propagation:   propagation(m.MountPropagation),
		})
	}
	return out, nil
}

func findVolume(pod *v1.Pod, name string) *v1.Volume {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i]
		}
	}
	return nil
}

func propagation(mode *v1.MountPropagationMode) runtimeapi.MountPropagation {
	if mode == nil {
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
	}
	switch *mode {
	case v1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case v1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	default:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
	}
}
