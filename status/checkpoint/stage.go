package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
)

// Stage has the records of a Store released with their pods: it is a stage in the sense of
// podworkers/stages, to be released when a pod is gone. In the list it stands after the
// pod's folder, in which the records usually are. Use NewStage.
type Stage struct {
	store *Store
	pods  func(context.Context) ([]types.UID, error)
}

// NewStage returns the Stage of a Store. pods lists every pod that may have a record,
// such as those with a folder.
func NewStage(store *Store, pods func(context.Context) ([]types.UID, error)) (*Stage, error) {
	if err := errors.Join(fields.Required("checkpoint: NewStage's store", store), fields.Required("checkpoint: NewStage's pods", pods)); err != nil {
		return nil, err
	}
	return &Stage{store, pods}, nil
}

// Prepare does nothing: there is something to be kept when a status is saved.
func (s *Stage) Prepare(context.Context, *v1.Pod) error { return nil }

// Release removes the record of a pod, and what was set aside of it.
func (s *Stage) Release(_ context.Context, uid types.UID) error { return s.store.Remove(uid) }

// Leftovers names the pods of which there is a record, or a part of one.
func (s *Stage) Leftovers(ctx context.Context) ([]types.UID, error) {
	pods, err := s.pods(ctx)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: list pods: %w", err)
	}
	var left []types.UID
	for _, uid := range pods {
		if s.store.has(uid) {
			left = append(left, uid)
		}
	}
	return left, nil
}

// has tells whether there is anything that Remove removes. What cannot be looked at may
// be there.
func (s *Store) has(uid types.UID) bool {
	if s.knows(uid) {
		return true
	}
	path := s.cfg.File(uid)
	for _, file := range []string{path, path + tmpSuffix, path + asideSuffix} {
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// knows tells whether the file of a pod is known, and nobody is at it.
func (s *Store) knows(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.pods[uid]
	return e != nil && e.users == 0
}
