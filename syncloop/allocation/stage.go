package allocation

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Stage is the stage of a Store for podworkers/stages, released after a pod has finished. A pod does not
// start before its allocation is in the file, so the file contains each started pod even after a
// kill.
type Stage struct{ store *Store }

// Stage returns the store's stage.
func (s *Store) Stage() Stage { return Stage{s} }

// Prepare writes all current allocations to the file. Pods that start at the same time share one
// write. It implements stages.Stage.
//
// A static pod may have been admitted before a predecessor with the same UID was released. Prepare
// then stores its allocation again.
func (s Stage) Prepare(_ context.Context, pod *v1.Pod) error {
	if _, ok := s.store.Get(pod.UID); !ok {
		s.store.setUnsaved(pod.UID, ResourcesOf(pod))
	}
	if err := s.store.flush(); err != nil {
		return fmt.Errorf("allocation: write store: %w", err)
	}
	return nil
}

// Release removes the pod from the store. It implements stages.Stage.
func (s Stage) Release(_ context.Context, uid types.UID) error {
	s.store.Remove(uid)
	return nil
}

// Leftovers returns the pods in the store. It implements stages.Stage.
func (s Stage) Leftovers(context.Context) ([]types.UID, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return slices.Collect(maps.Keys(s.store.entries)), nil
}
