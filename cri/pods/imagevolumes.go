package pods

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/request"
)

// imageVolumes has the image volumes (KEP-4639) that one sync has requested. Each image is
// requested once, for the first container that mounts it.
type imageVolumes map[string]imageVolume

type imageVolume struct {
	image   request.Image
	failure *StartError
}

// mountImages pulls the images that a container mounts and returns them by volume name. A failure
// affects only the containers that mount the volume.
func (s *podSync) mountImages(ctx context.Context, c podContainer) (map[string]request.Image, *StartError) {
	var out map[string]request.Image
	for _, mount := range c.VolumeMounts {
		source := imageVolumeOf(s.req.Pod, mount.Name)
		if source == nil {
			continue
		}
		volume, ok := s.volumes[mount.Name]
		if !ok {
			volume = s.ensureVolume(ctx, source)
			s.volumes[mount.Name] = volume
		}
		if volume.failure != nil {
			failure := *volume.failure
			failure.Container = c.Name
			return nil, &failure
		}
		if out == nil {
			out = map[string]request.Image{}
		}
		out[mount.Name] = volume.image
	}
	return out, nil
}

func (s *podSync) ensureVolume(ctx context.Context, source *v1.Volume) imageVolume {
	s.step("ensuring the image of volume " + source.Name)
	r := s.imageRequest()
	r.Volume = source
	image, err := s.m.cfg.Images.Ensure(ctx, r)
	if err != nil {
		failure := imageFailure("", err)
		failure.Message = "image of volume " + source.Name + ": " + failure.Message
		return imageVolume{failure: failure}
	}
	return imageVolume{image: request.Image(image)}
}

// imageVolumeOf returns the pod's image volume with this name, or nil.
func imageVolumeOf(pod *v1.Pod, name string) *v1.Volume {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name && v.Image != nil {
			return v
		}
	}
	return nil
}

// imageRequest returns the common part of the pod's image requests. Pulls of running and nearly
// complete pods have priority.
func (s *podSync) imageRequest() images.Request {
	r := images.Request{Pod: s.req.Pod, SandboxConfig: s.sandbox.config, OnStep: s.step, Running: len(s.req.Status.Running()) > 0}
	for _, list := range [][]v1.Container{s.req.Pod.Spec.InitContainers, s.req.Pod.Spec.Containers} {
		for i := range list {
			if s.req.Status.Newest(list[i].Name) == nil {
				r.Missing++
			}
		}
	}
	r.Missing = max(r.Missing-s.started, 1)
	return r
}
