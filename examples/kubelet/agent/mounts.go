package agent

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/volume/hostpath"
)

// hostPaths are the volumes of pods. hostPath is the one kind so far; manifests
// with others were refused.
type hostPaths struct{}

// Volume implements request.Volumes.
func (hostPaths) Volume(_ context.Context, pod *v1.Pod, name string) (request.Volume, error) {
	volume := findVolume(pod, name)
	if volume == nil || volume.HostPath == nil {
		return request.Volume{}, fmt.Errorf("no hostPath volume: %w", request.ErrNotFound)
	}
	path, err := hostpath.Prepare(volume.HostPath)
	if err != nil {
		return request.Volume{}, err
	}
	return request.Volume{Path: path}, nil
}

func findVolume(pod *v1.Pod, name string) *v1.Volume {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i]
		}
	}
	return nil
}
