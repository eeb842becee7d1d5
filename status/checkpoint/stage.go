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

// Stage releases the records of a Store with their pods. It is for records outside of the pods'
// folders: if a pod ended while no agent ran, the removal of its folder would leave its record. It
// is a stage of package podworkers/stages for the moment stages.Gone. Use NewStage.
type Stage struct {
	store *Store
	pods  func(context.Context) ([]types.UID, error)
}

// NewStage returns the Stage of a Store. pods lists every pod that may have a record, such as the
// file names in a folder of records.
func NewStage(store *Store, pods func(context.Context) ([]types.UID, error)) (*Stage, error) {
	if err := errors.Join(fields.Required("checkpoint: NewStage: store", store), fields.Required("checkpoint: NewStage: pods", pods)); err != nil {
		return nil, err
	}
	return &Stage{store, pods}, nil
}

// Prepare does nothing: the first Save creates the record.
func (s *Stage) Prepare(context.Context, *v1.Pod) error { return nil }

// Release removes the record of a pod, including a file that was set aside.
func (s *Stage) Release(_ context.Context, uid types.UID) error { return s.store.Remove(uid) }

// Leftovers returns the pods with a record or a part of one.
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

// has reports whether a file for Remove may exist. An unreadable path counts.
func (s *Store) has(uid types.UID) bool {
	if s.isCurrent(uid) {
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

// isCurrent reports whether the Store has the content of a pod's file and no call uses it.
func (s *Store) isCurrent(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.pods[uid]
	return e != nil && e.users == 0
}
