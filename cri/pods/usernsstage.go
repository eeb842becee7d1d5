package pods

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UserStage has users given back with their pods: it is a stage in the sense of
// podworkers/stages. In the list it stands before whatever holds files of these users,
// which is released first then, and after the pod's folder, which has its file.
type UserStage struct{ users *UserNamespaces }

// Stage returns the UserStage of u.
func (u *UserNamespaces) Stage() UserStage { return UserStage{u} }

// Prepare does nothing: Of gives a pod its users when its sandbox is about to be made,
// if it wants some.
func (s UserStage) Prepare(context.Context, *v1.Pod) error { return nil }

// Release takes a pod's users back, for others to have.
func (s UserStage) Release(_ context.Context, uid types.UID) error { return s.users.Release(uid) }

// Leftovers names the pods that have users, and those with a file that cannot be read.
func (s UserStage) Leftovers(context.Context) ([]types.UID, error) {
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	left := slices.Collect(maps.Keys(s.users.unknown))
	for _, uid := range s.users.ids.Pods() {
		if !s.users.unknown[uid] {
			left = append(left, uid)
		}
	}
	return left, nil
}
