package pods

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/request"
)

// imageVolumes are the image volumes (KEP-4639) of a pod, as far as one sync has
// come to them: each image is asked for once, by the first container that is to be
// started and mounts it.
type imageVolumes map[string]imageVolume

type imageVolume struct {
	image   request.Image
	failure *StartError
}

// mountImages makes the images present that a container mounts, and returns them
// by the name of their volume. A failure is the container's: the volume is of no
// use to anybody else.
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

// imageVolumeOf finds an image volume, nil for every other volume.
func imageVolumeOf(pod *v1.Pod, name string) *v1.Volume {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name && v.Image != nil {
			return v
		}
	}
	return nil
}

// imageRequest is what a request for any image of the pod says: a pod that runs,
// or that is nearly complete, goes before others.
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
