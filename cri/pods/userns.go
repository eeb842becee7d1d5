package pods

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/fs"
)

// UserNamespacesConfig configures UserNamespaces. PodDir is required.
type UserNamespacesConfig struct {
	// PodDir returns a pod's directory, in which its user namespace is written
	// down. Required.
	PodDir func(uid types.UID) string
	// Pods are the pods that have a directory: what they have taken is not given
	// out again. A file of theirs that cannot be read is no error here: see Of.
	Pods []types.UID
	// Range are the IDs to give out; zero is what kubelets use by default.
	Range request.IDRange
	// Logger is told of files that cannot be read; nil discards.
	Logger *slog.Logger
}

// UserNamespaces gives users of their own to the pods that want some (KEP-127),
// and keeps them in files, as kubelets do: a pod has the same users for good, and
// an agent that was killed finds out who has which. Of is what a
// request.Inputs.UserNamespace is to be. Methods are safe for concurrent use.
type UserNamespaces struct {
	podDir func(uid types.UID) string
	ids    *request.IDs
	mu     sync.Mutex // a pod is given users once
	// unknown are the pods that have a file of which nobody can tell what it says.
	unknown map[types.UID]bool
}

// NewUserNamespaces reads what pods have, and returns UserNamespaces.
func NewUserNamespaces(cfg UserNamespacesConfig) (*UserNamespaces, error) {
	if err := fields.Required("pods: UserNamespacesConfig.PodDir", cfg.PodDir); err != nil {
		return nil, err
	}
	ids, err := request.NewIDs(cfg.Range)
	if err != nil {
		return nil, fmt.Errorf("pods: UserNamespacesConfig.Range: %w", err)
	}
	fields.Logger(&cfg.Logger)
	u := &UserNamespaces{podDir: cfg.PodDir, ids: ids, unknown: map[types.UID]bool{}}
	for _, uid := range cfg.Pods {
		if _, _, err := u.read(uid); err != nil {
			cfg.Logger.Error("cannot tell which users a pod has", "podUID", uid, "err", err)
		}
	}
	return u, nil
}

func (u *UserNamespaces) file(uid types.UID) string {
	return filepath.Join(u.podDir(uid), request.UserNamespaceFile)
}

// read takes what a pod's file says, and tells whether there is one. Errors name
// the file.
func (u *UserNamespaces) read(uid types.UID) (request.UserNamespace, bool, error) {
	delete(u.unknown, uid)
	content, err := os.ReadFile(u.file(uid))
	if errors.Is(err, iofs.ErrNotExist) {
		return request.UserNamespace{}, false, nil
	}
	var users request.UserNamespace
	if err == nil {
		users, err = request.DecodeUserNamespace(content)
	}
	if err != nil {
		if !slices.Contains(u.ids.Pods(), uid) { // else it was read before
			u.unknown[uid] = true
		}
	} else {
		err = u.ids.Record(uid, users)
	}
	if err != nil {
		return request.UserNamespace{}, true, fmt.Errorf("%s: %w", u.file(uid), err)
	}
	return users, true, nil
}

// Of returns the users of a pod: those in its file, else new ones that are in its
// file when this returns. A file that cannot be read, or makes no sense, is an error
// for that pod, and for every pod that needs new users: the pod of that file may run
// with any, and two pods with the same could do to each other what users can do. It
// ends when the file can be read again, or was removed with its pod (Release).
func (u *UserNamespaces) Of(pod *v1.Pod) (request.UserNamespace, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	users, found, err := u.read(pod.UID)
	if found || err != nil {
		return users, err
	}
	if err := u.allKnown(); err != nil {
		return request.UserNamespace{}, err
	}
	if users, err = u.ids.Allocate(pod.UID); err != nil {
		return request.UserNamespace{}, err
	}
	if err = os.MkdirAll(u.podDir(pod.UID), 0o750); err == nil {
		err = fs.WriteAtomic(u.file(pod.UID), users.Encode(), 0o644)
	}
	if err != nil {
		u.ids.Release(pod.UID) // nothing can have been started with them
		return request.UserNamespace{}, err
	}
	return users, nil
}

// allKnown looks again at the files that could not be read.
func (u *UserNamespaces) allKnown() error {
	for _, uid := range slices.Sorted(maps.Keys(u.unknown)) {
		if _, _, err := u.read(uid); u.unknown[uid] {
			return fmt.Errorf("no users for a new pod while those of pod %s are not known: %w", uid, err)
		}
	}
	return nil
}

// Release takes a pod's users back, for others to have. Nothing of the pod may run
// any longer, and its volumes must be gone: what they hold belongs to these users.
// Releasing what a pod does not have succeeds.
func (u *UserNamespaces) Release(uid types.UID) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := os.Remove(u.file(uid)); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("user namespace: %w", err)
	}
	delete(u.unknown, uid)
	u.ids.Release(uid)
	return nil
}

// Pods returns the pods that are known to have users of their own, in no order, for
// a caller who looks for those that are gone.
func (u *UserNamespaces) Pods() []types.UID { return u.ids.Pods() }

// UserStage has users given back with their pods: it is a stage in the sense of
// podworkers/stages. In the list it stands before every stage with files of these users,
// which is then released first, and after the pod's folder, which has its file.
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
