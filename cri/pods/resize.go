package pods

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/resize"
)

func (s *podSync) resize(ctx context.Context) {
	if !s.actions.Resizes() || s.ended(ctx) {
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
