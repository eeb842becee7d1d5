package pods

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/resize"
)

// resize resizes running containers, and the pod around them, in place.
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

// Applied returns the resources of a pod as a whole that were applied to it last: for
// status.Input. nil when it asks for none, or nothing is on record, or the record cannot be
// read, which ends the pod's next sync with an error.
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
