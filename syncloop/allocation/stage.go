package allocation

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Stage is the part of a Store among what pods hold on the node (podworkers/stages, released
// when a pod is gone): a pod does not begin before the file has what it was granted, so that
// after a kill each pod that has begun is in it.
type Stage struct{ store *Store }

// Stage returns the stage of the store.
func (s *Store) Stage() Stage { return Stage{s} }

// Prepare has everything in the file that was granted by now: when many pods begin at the
// same time that is one write, not one for each of them. It implements stages.Stage.
//
// A static pod may have been admitted before one with the same UID was released: then it is
// granted again what it has.
func (s Stage) Prepare(_ context.Context, pod *v1.Pod) error {
	if _, ok := s.store.Get(pod.UID); !ok {
		s.store.hold(pod.UID, Of(pod))
	}
	if err := s.store.flush(); err != nil {
		return fmt.Errorf("resources of pods: %w", err)
	}
	return nil
}

// Release is Remove. It implements stages.Stage.
func (s Stage) Release(_ context.Context, uid types.UID) error {
	s.store.Remove(uid)
	return nil
}

// Leftovers are the pods in the store. It implements stages.Stage.
func (s Stage) Leftovers(context.Context) ([]types.UID, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return slices.Collect(maps.Keys(s.store.entries)), nil
}
