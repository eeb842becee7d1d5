package pods

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/internal/podfacts"
)

// resize resizes the pod in place. It precedes the starts, because the pod's cgroup bounds its
// containers.
func (s *podSync) resize(ctx context.Context) {
	inPlace := s.actions.UpdatePodLevelResources || len(s.actions.UpdateMemory)+len(s.actions.UpdateCPU) > 0
	if !s.actions.Resizes() || s.ended(ctx) || s.m.resizer == nil && !inPlace {
		return
	}
	s.step("resizing containers")
	begin := time.Now()
	err := errors.New("the runtime cannot change resources")
	if s.m.resizer != nil {
		err = s.m.resizer.Resize(ctx, resize.Request{Pod: s.req.Pod, Status: s.req.Status, Actions: &s.actions, Record: s.record})
	}
	if err != nil && s.ended(ctx) {
		return
	}
	s.m.cfg.Metrics.OnResize(time.Since(begin), err)
	s.result.add(ActionResizePodInPlace, s.identity.Name, err)
	if err != nil && s.m.resizer != nil {
		s.resizeFailed(err)
	}
}

// resizeFailed keeps stopped containers with changed resources from starting in a cgroup that may
// be too small. After ErrMemoryInUse they start: the pod's cgroup has its former values, and the
// kept record repeats the resize. A container that restarts for each resize would restart for
// each attempt, so it is recorded.
func (s *podSync) resizeFailed(err error) {
	inUse := errors.Is(err, resize.ErrMemoryInUse)
	for _, name := range s.actions.UpdateStopped {
		c := podfacts.Container(s.req.Pod, name)
		restarts := slices.ContainsFunc(c.ResizePolicy, func(p v1.ContainerResizePolicy) bool { return p.RestartPolicy == v1.RestartContainer })
		s.failed[name] = s.failed[name] || !inUse
		s.unrecorded[name] = inUse && !restarts
	}
}

// RecursiveReadOnly reports whether the pod's runtime handler supports recursive read-only mounts,
// for status.Input. It returns false for a pod without such a mount.
func (m *Manager) RecursiveReadOnly(pod *v1.Pod) bool {
	for c := range podfacts.Containers(pod) {
		if slices.ContainsFunc(c.VolumeMounts, func(v v1.VolumeMount) bool { return v.RecursiveReadOnly != nil }) {
			return m.builder.HandlerFeatures(pod).RecursiveReadOnlyMounts
		}
	}
	return false
}

// Applied returns the pod-level resources last applied to a pod, for status.Input. It returns nil
// if the pod has none, none are recorded, or the record cannot be read; in the last case the
// pod's next sync fails.
func (m *Manager) Applied(pod *v1.Pod) *v1.ResourceRequirements {
	if pod.Spec.Resources == nil || m.cfg.Actuated == nil {
		return nil
	}
	actuated, err := m.cfg.Actuated.Load(pod.UID)
	if err != nil {
		return nil
	}
	return actuated.Pod
}
