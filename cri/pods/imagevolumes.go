package pods

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/images"
)

// imageVolumes are the image volumes (KEP-4639) of a pod, as far as one sync has
// come to them: each image is asked for once, by the first container that is to be
// started and mounts it.
type imageVolumes map[string]imageVolume

type imageVolume struct {
	image   images.Image
	failure *StartError
}

// mountImages makes the images present that a container mounts, and returns them
// by the name of their volume. A failure is the container's: the volume is of no
// use to anybody else.
func (s *podSync) mountImages(ctx context.Context, c startee) (map[string]images.Image, *StartError) {
	var out map[string]images.Image
	for _, mount := range c.VolumeMounts {
		source := imageSource(s.req.Pod, mount.Name)
		if source == nil {
			continue
		}
		volume, ok := s.volumes[mount.Name]
		if !ok {
			volume = s.ensureVolume(ctx, mount.Name, source)
			s.volumes[mount.Name] = volume
		}
		if volume.failure != nil {
			failure := *volume.failure
			failure.Container = c.Name
			return nil, &failure
		}
		if out == nil {
			out = map[string]images.Image{}
		}
		out[mount.Name] = volume.image
	}
	return out, nil
}

func (s *podSync) ensureVolume(ctx context.Context, name string, source *v1.ImageVolumeSource) imageVolume {
	s.step("ensuring the image of volume " + name)
	image, err := s.m.cfg.Images.Ensure(ctx, images.Request{
		Pod:           s.req.Pod,
		Container:     &v1.Container{Name: name, Image: source.Reference, ImagePullPolicy: source.PullPolicy},
		SandboxConfig: s.sandbox.config,
	})
	if err != nil {
		failure := imageFailure("", err)
		failure.Message = "image of volume " + name + ": " + failure.Message
		return imageVolume{failure: failure}
	}
	return imageVolume{image: image}
}

// imageSource is the source of an image volume, nil for every other volume.
func imageSource(pod *v1.Pod, volume string) *v1.ImageVolumeSource {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == volume {
			return v.Image
		}
	}
	return nil
}
