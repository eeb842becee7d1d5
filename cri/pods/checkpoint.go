package pods

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// loadActuated reads what the runtime was last told. Without that it cannot be
// known whether containers have to be resized.
func (s *podSync) loadActuated() error {
	if s.m.cfg.Actuated == nil {
		return nil
	}
	var err error
	if s.actuated, err = s.m.cfg.Actuated.Load(s.identity.UID); err != nil {
		return fmt.Errorf("resources told before: %w", err)
	}
	return nil
}

// noteActuated records the resources of a container that is about to be created:
// after a crash they may have been applied, and telling the runtime again what it
// knows does no harm. One that asks for nothing, in a pod that does not either, is
// not worth a write.
func (s *podSync) noteActuated(c startee) error {
	if s.m.cfg.Actuated == nil || c.kind == KindEphemeral {
		return nil
	}
	record, recorded := s.actuated.Containers[c.Name]
	if sameRequirements(record, c.Resources) && (recorded || s.req.Pod.Spec.Resources == nil) {
		return nil
	}
	return s.saveActuated(s.actuated.withContainer(c.Name, c.Resources))
}

// notePodActuated does the same for the resources of a pod as a whole, before its
// sandbox is made.
func (s *podSync) notePodActuated() error {
	want := s.req.Pod.Spec.Resources
	if s.m.cfg.Actuated == nil || samePodRequirements(s.actuated.Pod, want) {
		return nil
	}
	return s.saveActuated(ActuatedResources{Containers: s.actuated.Containers, Pod: want})
}

func (s *podSync) saveActuated(r ActuatedResources) error {
	if err := s.m.cfg.Actuated.Save(s.identity.UID, r); err != nil {
		return fmt.Errorf("checkpoint of resources: %w", err)
	}
	s.actuated = r
	return nil
}

func samePodRequirements(a, b *v1.ResourceRequirements) bool {
	var zero v1.ResourceRequirements
	if a == nil {
		a = &zero
	}
	if b == nil {
		b = &zero
	}
	return sameRequirements(*a, *b)
}

func sameRequirements(a, b v1.ResourceRequirements) bool {
	return sameQuantities(a.Requests, b.Requests) && sameQuantities(a.Limits, b.Limits)
}

func sameQuantities(a, b v1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}
