package pods

import (
	"context"
	"errors"
	"time"

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
	s.m.cfg.Metrics.Resized(time.Since(begin), err)
	s.result.add(ActionResizePodInPlace, s.identity.Name, err)
}
