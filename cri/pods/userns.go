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
	// PodDir returns a pod's directory, which contains the file of its user namespace. Required.
	PodDir func(uid types.UID) string
	// Pods are the pods that have a directory. Their ID ranges are not allocated again. An
	// unreadable file is no error here: see Of.
	Pods []types.UID
	// Range is the range of IDs to allocate from. Default: the kubelet's default.
	Range request.IDRange
	// Logger receives errors about unreadable files. Default: discard.
	Logger *slog.Logger
}

// UserNamespaces allocates ID ranges for pods with user namespaces (KEP-127) and stores them in
// files, in the kubelet's format. A pod keeps its range for life, and a restarted agent reads the
// allocations of all pods. Use Of as request.Inputs.UserNamespace. UserNamespaces is safe for
// concurrent use.
type UserNamespaces struct {
	podDir func(uid types.UID) string
	ids    *request.IDs
	mu     sync.Mutex // serialises allocations
	// unknown has the pods whose file cannot be read or parsed.
	unknown map[types.UID]bool
}

// NewUserNamespaces reads the files of the pods and returns UserNamespaces.
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
			cfg.Logger.Error("reading the user namespace of a pod failed", "podUID", uid, "err", err)
		}
	}
	return u, nil
}

func (u *UserNamespaces) file(uid types.UID) string {
	return filepath.Join(u.podDir(uid), request.UserNamespaceFile)
}

// read records the range in a pod's file and reports whether the file exists. Errors contain the
// path.
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
		if !slices.Contains(u.ids.Pods(), uid) { // otherwise its range was recorded before
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

// Of returns the pod's user namespace from its file, or allocates one and writes the file before
// it returns. If any pod's file cannot be read or parsed, Of fails for that pod and for every pod
// that needs a new range: that pod may use any range, and two pods with the same range are not
// isolated from each other. The error lasts until the file is readable or removed with its pod
// (Release).
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
		u.ids.Release(pod.UID) // no container can have been started with this range
		return request.UserNamespace{}, err
	}
	return users, nil
}

// allKnown reads the unreadable files again.
func (u *UserNamespaces) allKnown() error {
	for _, uid := range slices.Sorted(maps.Keys(u.unknown)) {
		if _, _, err := u.read(uid); u.unknown[uid] {
			return fmt.Errorf("no user namespaces for new pods until the file of pod %s is readable: %w", uid, err)
		}
	}
	return nil
}

// Release frees a pod's range. The pod's containers must have stopped and its volumes must be
// removed, because their files belong to these users. Releasing a pod without a range succeeds.
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

// Pods returns the pods that have a range, in no order, to find removed ones.
func (u *UserNamespaces) Pods() []types.UID { return u.ids.Pods() }

// UserStage frees the ranges of removed pods. It is a stage (package podworkers/stages). In the
// list, place it after the pod's folder, which contains its file, and before every stage with
// files of these users, so that those are released first.
type UserStage struct{ users *UserNamespaces }

// Stage returns the UserStage of u.
func (u *UserNamespaces) Stage() UserStage { return UserStage{u} }

// Prepare does nothing: Of allocates the range when the sandbox is created.
func (s UserStage) Prepare(context.Context, *v1.Pod) error { return nil }

// Release frees a pod's range.
func (s UserStage) Release(_ context.Context, uid types.UID) error { return s.users.Release(uid) }

// Leftovers returns the pods that have a range or an unreadable file.
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
