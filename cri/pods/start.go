package pods

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
)

// startContainer starts one container, records a failure, and reports whether the container is
// up. A cancelled start records neither success nor failure.
func (s *podSync) startContainer(ctx context.Context, c podContainer) bool {
	if s.failed[c.Name] {
		return false
	}
	action := ActionStartContainer
	if c.kind == KindInit {
		action = ActionInitContainer
	}
	failure := s.start(ctx, c)
	switch {
	case failure == nil:
		s.started++
		s.m.clearFailure(s.identity.UID, c.Name)
		s.result.add(action, c.Name, nil)
		s.m.cfg.Metrics.OnContainerStart(c.kind, "")
	case s.ended(ctx):
	default:
		s.m.recordFailure(s.identity.UID, failure)
		s.result.add(action, c.Name, failure)
		if failure.Reason != ReasonCrashLoopBackOff {
			s.m.cfg.Metrics.OnContainerStart(c.kind, failure.Reason)
		}
	}
	return failure == nil
}

func (s *podSync) start(ctx context.Context, c podContainer) *StartError {
	exit := s.lastExit(c)
	if failure := s.backOff(c, exit); failure != nil {
		return failure
	}
	volumes, failure := s.mountImages(ctx, c)
	if failure != nil {
		return failure
	}
	image, failure := s.ensureImage(ctx, c)
	if failure != nil {
		return failure
	}
	config, failure := s.prepare(ctx, c, image, volumes)
	if failure != nil {
		return failure
	}
	id, failure := s.bringUp(ctx, c, config, exit)
	failed := failure != nil && strings.Contains(failure.Message, imageMountFailed)
	if len(volumes) > 0 && (failure == nil || failed) {
		s.m.cfg.Metrics.OnImagesMount(len(volumes), failed)
	}
	if failure != nil {
		return failure
	}
	s.m.cfg.Event(s.identity.containerRef(s.req.Pod, c.Name), v1.EventTypeNormal, "Started", "Container started")
	log := filepath.Join(s.sandbox.config.LogDirectory, config.LogPath)
	if err := s.m.files.LinkLog(s.identity.Pod, c.Name, id, log); err != nil {
		s.m.log.Warn("linking to a container log failed", "pod", s.identity, "container", c.Name, "err", err)
	}
	return s.postStart(ctx, c, id)
}

// imageMountFailed is part of a runtime's error for an image that it cannot mount.
const imageMountFailed = "ImageVolumeMountFailed"

func (s *podSync) ensureImage(ctx context.Context, c podContainer) (images.Image, *StartError) {
	s.step("ensuring the image of " + c.String())
	r := s.imageRequest()
	r.Container = c.Container
	image, err := s.m.cfg.Images.Ensure(ctx, r)
	if err != nil {
		failure := imageFailure(c.Name, err)
		s.cannotStart(ctx, c, failure.Reason)
		return images.Image{}, failure
	}
	return image, nil
}

// prepare returns the configuration of a container and prepares its creation.
func (s *podSync) prepare(ctx context.Context, c podContainer, image images.Image, volumes map[string]request.Image) (*runtimeapi.ContainerConfig, *StartError) {
	s.step("starting " + c.String())
	config, err := s.configure(ctx, c, image, volumes)
	if err == nil {
		err = s.noteResources(c)
	}
	if err != nil {
		return nil, s.fail(ctx, c, ReasonCreateContainerConfigError, "", err)
	}
	if s.m.cfg.PreCreate == nil {
		return config, nil
	}
	if err := s.m.cfg.PreCreate(ctx, s.req.Pod, c.Container, config); err != nil {
		return nil, s.fail(ctx, c, ReasonPreCreateHookError, "", err)
	}
	return config, nil
}

func (s *podSync) noteResources(c podContainer) error {
	if c.kind == KindEphemeral || s.unrecorded[c.Name] {
		return nil
	}
	return s.record.NoteContainer(s.req.Pod, c.Container)
}

// configure chooses the restart count of the instance and generates its configuration.
func (s *podSync) configure(ctx context.Context, c podContainer, image images.Image, volumes map[string]request.Image) (*runtimeapi.ContainerConfig, error) {
	restarts, known := restartCount(s.req.Status, c.Name)
	if !known {
		logged, err := podfiles.RestartsInLogDir(filepath.Join(s.sandbox.config.LogDirectory, c.Name))
		if err != nil {
			return nil, fmt.Errorf("restart count: %w", err)
		}
		restarts = max(restarts, logged)
	}
	target, err := s.processesOf(c)
	if err != nil {
		return nil, err
	}
	return s.m.containerConfig(ctx, request.Instance{
		Pod: s.req.Pod, Container: c.Container, Image: request.Image(image), RestartCount: restarts,
		PodIPs: s.m.builder.PodIPs(s.req.Pod, s.sandbox.ips), TargetID: target, ImageVolumes: volumes,
	})
}

// processesOf returns the ID of the container whose processes an ephemeral container shares, or
// "" if it names no target.
func (s *podSync) processesOf(c podContainer) (string, error) {
	if c.inside == "" {
		return "", nil
	}
	target := s.req.Status.Newest(c.inside)
	if target == nil {
		return "", fmt.Errorf("unable to find target container %s", c.inside)
	}
	return target.ID.ID, nil
}

// bringUp creates and starts a container and returns its ID. It has a slot in the start gate
// during the runtime calls.
func (s *podSync) bringUp(ctx context.Context, c podContainer, config *runtimeapi.ContainerConfig, exit *observed.Container) (string, *StartError) {
	leave, err := s.m.gate.enter(ctx, true)
	if err != nil {
		return "", s.fail(ctx, c, ReasonCreateContainerError, "", err)
	}
	defer func() { leave() }()
	id, failure := s.create(ctx, c, config)
	if failure != nil {
		return "", failure
	}
	if exit != nil { // from here on it counts as a restart, even if the start fails
		s.m.crashLoop.Next(crashLoopKey(s.req.Pod, c.Container), exit.FinishedAt, time.Now())
	}
	if s.m.cfg.PreStart != nil {
		leave() // a slow hook must not use a slot
		leave = func() {}
		if err := s.m.cfg.PreStart(ctx, s.req.Pod, c.Container, id); err != nil {
			return "", s.fail(ctx, c, ReasonPreStartHookError, id, err)
		}
		if leave, err = s.m.gate.enter(ctx, true); err != nil {
			leave = func() {}
			return "", s.fail(ctx, c, ReasonRunContainerError, id, err)
		}
	}
	return id, s.launch(ctx, c, id)
}

func (s *podSync) create(ctx context.Context, c podContainer, config *runtimeapi.ContainerConfig) (string, *StartError) {
	call, done := run.WithGrace(ctx, stepGrace)
	defer done()
	id, err := s.m.cfg.Runtime.CreateContainer(call, s.sandbox.id, config, s.sandbox.config)
	if err != nil {
		return "", s.fail(ctx, c, ReasonCreateContainerError, "", err)
	}
	s.m.cfg.Event(s.identity.containerRef(s.req.Pod, c.Name), v1.EventTypeNormal, "Created", "Container created")
	if ctx.Err() != nil {
		return "", s.fail(ctx, c, ReasonRunContainerError, id, ctx.Err())
	}
	return id, nil
}

// launch starts a created container.
func (s *podSync) launch(ctx context.Context, c podContainer, id string) *StartError {
	call, done := run.WithGrace(ctx, stepGrace)
	defer done()
	if err := s.m.cfg.Runtime.StartContainer(call, id); err != nil {
		return s.fail(ctx, c, ReasonRunContainerError, id, err)
	}
	return nil
}

// fail returns a StartError and records its event. A cancelled sync records no event.
func (s *podSync) fail(ctx context.Context, c podContainer, reason, id string, err error) *StartError {
	message := withoutID(runtimeText(err), id, c.Name)
	s.cannotStart(ctx, c, message)
	return &StartError{Container: c.Name, Reason: reason, Message: message, Err: err}
}

// cannotStart records the event of a failed start, unless the sync was cancelled.
func (s *podSync) cannotStart(ctx context.Context, c podContainer, why string) {
	if ctx.Err() == nil {
		s.m.cfg.Event(s.identity.containerRef(s.req.Pod, c.Name), v1.EventTypeWarning, "Failed", "Error: "+why)
	}
}

// imageFailure converts an error of package images, which has already recorded the image's event.
func imageFailure(container string, err error) *StartError {
	out := &StartError{Container: container, Reason: images.ReasonErrImagePull, Message: err.Error(), Err: err}
	var detail *images.Error
	if errors.As(err, &detail) {
		out.Reason, out.Message, out.notBefore = detail.Reason, detail.Message, detail.NotBefore()
	}
	return out
}

// restartCount returns the restart count of the next instance: one more than the highest of all
// instances that were started. An instance that was only created passes its count on. If known is
// false, the log directory may have a higher count.
func restartCount(s *observed.Pod, name string) (count int32, known bool) {
	for i := range s.Containers {
		c := &s.Containers[i]
		switch {
		case c.Name != name:
		case c.State == observed.StateCreated:
			count = max(count, c.RestartCount)
		default:
			count, known = max(count, c.RestartCount+1), true
		}
	}
	return count, known
}
