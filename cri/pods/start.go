package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/pleg"
)

// startContainer starts one container and remembers why it could not. A start
// that was called off leaves no trace: nothing is known of the container then.
func (s *podSync) startContainer(ctx context.Context, c *v1.Container) {
	if s.failed[c.Name] {
		return
	}
	failure := s.start(ctx, c)
	switch {
	case failure == nil:
		s.m.clearFailure(s.identity.UID, c.Name)
		s.result.add(ActionStartContainer, c.Name, nil)
	case s.ended(ctx):
	default:
		s.m.recordFailure(s.identity.UID, c.Name, StartFailure{Reason: failure.Reason, Message: failure.Message})
		s.result.add(ActionStartContainer, c.Name, failure)
	}
}

func (s *podSync) start(ctx context.Context, c *v1.Container) *StartError {
	key, exit := crashLoopKey(s.req.Pod, c), lastExit(s.req.Status, c.Name)
	if until := s.heldBack(key, exit); !until.IsZero() {
		return s.backOff(c, until)
	}
	s.step("ensuring the image of container " + c.Name)
	image, err := s.m.cfg.Images.Ensure(ctx, images.Request{Pod: s.req.Pod, Container: c, SandboxConfig: s.sandbox.config})
	if err != nil {
		return imageFailure(c, err)
	}
	s.step("starting container " + c.Name)
	config, restarts, err := s.configure(ctx, c, image)
	if err != nil {
		return s.fail(ctx, c, ReasonCreateContainerConfigError, "", err)
	}
	leave, err := s.m.gate.enter(ctx, true)
	if err != nil {
		return s.fail(ctx, c, ReasonCreateContainerError, "", err)
	}
	defer leave()
	id, failure := s.create(ctx, c, config)
	if failure != nil {
		return failure
	}
	if exit != nil { // from here on it counts as a restart, whatever comes of it
		s.m.crashLoop.Next(key, exit.FinishedAt)
	}
	return s.launch(ctx, c, id, restarts)
}

// configure decides on the number of the instance and generates its
// configuration.
func (s *podSync) configure(ctx context.Context, c *v1.Container, image images.Image) (*runtimeapi.ContainerConfig, int32, error) {
	restarts, known := restartCount(s.req.Status, c.Name)
	if !known {
		logged, err := restartsInLogDir(filepath.Join(s.sandbox.config.LogDirectory, c.Name))
		if err != nil {
			return nil, 0, fmt.Errorf("restart count: %w", err)
		}
		restarts = max(restarts, logged)
	}
	config, err := s.m.containerConfig(ctx, instance{
		pod:          s.req.Pod,
		container:    c,
		image:        image,
		restartCount: restarts,
		podIPs:       s.m.podIPs(s.req.Pod, s.sandbox.ips),
	})
	return config, restarts, err
}

// create creates a container and returns its ID.
func (s *podSync) create(ctx context.Context, c *v1.Container, config *runtimeapi.ContainerConfig) (string, *StartError) {
	call, done := s.m.step(ctx)
	defer done()
	id, err := s.m.cfg.Runtime.CreateContainer(call, s.sandbox.id, config, s.sandbox.config)
	if err != nil {
		return "", s.fail(ctx, c, ReasonCreateContainerError, "", err)
	}
	s.m.cfg.Event(s.identity.containerRef(c.Name), v1.EventTypeNormal, "Created", "Created container: "+c.Name)
	if ctx.Err() != nil {
		return "", s.fail(ctx, c, ReasonRunContainerError, id, ctx.Err())
	}
	return id, nil
}

// launch starts a created container.
func (s *podSync) launch(ctx context.Context, c *v1.Container, id string, restarts int32) *StartError {
	call, done := s.m.step(ctx)
	defer done()
	if err := s.m.cfg.Runtime.StartContainer(call, id); err != nil {
		return s.fail(ctx, c, ReasonRunContainerError, id, err)
	}
	s.m.cfg.Event(s.identity.containerRef(c.Name), v1.EventTypeNormal, "Started", "Started container "+c.Name)
	log := filepath.Join(s.sandbox.config.LogDirectory, request.LogPath(c.Name, restarts))
	if err := s.m.linkLog(s.identity, c.Name, id, log); err != nil {
		s.m.log.Warn("cannot link to the log of a container", "pod", s.identity, "container", c.Name, "err", err)
	}
	return nil
}

// fail makes a StartError and the event that goes with it, unless nobody wants
// the container any longer.
func (s *podSync) fail(ctx context.Context, c *v1.Container, reason, id string, err error) *StartError {
	message := withoutID(runtimeText(err), id, c.Name)
	if ctx.Err() == nil {
		s.m.cfg.Event(s.identity.containerRef(c.Name), v1.EventTypeWarning, "Failed", "Error: "+message)
	}
	return &StartError{Container: c.Name, Reason: reason, Message: message, Err: err}
}

// imageFailure takes over what package images says of a failed pull; it has
// recorded the events, too.
func imageFailure(c *v1.Container, err error) *StartError {
	out := &StartError{Container: c.Name, Reason: images.ReasonErrImagePull, Message: err.Error(), Err: err}
	var detail *images.Error
	if errors.As(err, &detail) {
		out.Reason, out.Message, out.notBefore = detail.Reason, detail.Message, detail.NotBefore()
	}
	return out
}

// heldBack returns until when a crashing container is held back, or zero. The
// delay counts from the end of the last instance.
func (s *podSync) heldBack(key string, exit *pleg.ContainerStatus) time.Time {
	if exit == nil {
		return time.Time{}
	}
	until := s.m.crashLoop.Until(key, exit.FinishedAt)
	if !time.Now().Before(until) {
		return time.Time{}
	}
	return until
}

func (s *podSync) backOff(c *v1.Container, until time.Time) *StartError {
	delay := s.m.crashLoop.Delay(crashLoopKey(s.req.Pod, c))
	message := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", delay, c.Name, s.identity)
	s.m.cfg.Event(s.identity.containerRef(c.Name), v1.EventTypeWarning, "BackOff",
		fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, s.identity))
	return &StartError{Container: c.Name, Reason: ReasonCrashLoopBackOff, Message: message, notBefore: until}
}

// crashLoopKey changes with everything that gives a crashing container a new
// chance.
func crashLoopKey(pod *v1.Pod, c *v1.Container) string {
	h := fnv.New128a()
	// Encoding these types cannot fail, and nothing but the key would suffer.
	_ = json.NewEncoder(h).Encode([]any{pod.Name, pod.Namespace, pod.UID, c.Name, c.Image, c.Resources})
	return fmt.Sprintf("%x", h.Sum(nil))
}

// lastExit returns the newest exited instance of a container, or nil.
func lastExit(s *pleg.PodStatus, name string) *pleg.ContainerStatus {
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Name == name && c.State == pleg.StateExited {
			return c
		}
	}
	return nil
}

// restartCount is the number of the next instance: one more than that of any
// which was ever started. Those that were only created give up theirs; without
// any other, logs may know better.
func restartCount(s *pleg.PodStatus, name string) (count int32, known bool) {
	for i := range s.Containers {
		c := &s.Containers[i]
		switch {
		case c.Name != name:
		case c.State == pleg.StateCreated:
			count = max(count, c.RestartCount)
		default:
			count, known = max(count, c.RestartCount+1), true
		}
	}
	return count, known
}
