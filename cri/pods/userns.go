package pods

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/internal/atomicfile"
)

// UserNamespacesConfig configures UserNamespaces. PodDir is required.
type UserNamespacesConfig struct {
	// PodDir returns a pod's directory, in which its user namespace is written
	// down. Required.
	PodDir func(uid types.UID) string
	// Pods are the pods that have a directory: what they have taken is not given
	// out again. A file of theirs that cannot be read is no error here, but one of
	// that pod.
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
}

// NewUserNamespaces reads what pods have, and returns UserNamespaces.
func NewUserNamespaces(cfg UserNamespacesConfig) (*UserNamespaces, error) {
	if cfg.PodDir == nil {
		return nil, errors.New("pods: UserNamespacesConfig.PodDir is missing")
	}
	ids, err := request.NewIDs(cfg.Range)
	if err != nil {
		return nil, fmt.Errorf("pods: UserNamespacesConfig.Range: %w", err)
	}
	u := &UserNamespaces{podDir: cfg.PodDir, ids: ids}
	for _, uid := range cfg.Pods {
		// The pod hears of it, too, when it asks for its users. What it has is not
		// known then, and may be given to another.
		if _, _, err := u.read(uid); err != nil && cfg.Logger != nil {
			cfg.Logger.Error("cannot read which users a pod has; another may get the same", "uid", uid, "file", u.file(uid), "err", err)
		}
	}
	return u, nil
}

func (u *UserNamespaces) file(uid types.UID) string {
	return filepath.Join(u.podDir(uid), request.UserNamespaceFile)
}

// read takes what a pod's file says, and tells whether there is one.
func (u *UserNamespaces) read(uid types.UID) (request.UserNamespace, bool, error) {
	content, err := os.ReadFile(u.file(uid))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return request.UserNamespace{}, false, nil
	case err != nil:
		return request.UserNamespace{}, false, err
	}
	users, err := request.DecodeUserNamespace(content)
	if err == nil {
		err = u.ids.Record(uid, users)
	}
	return users, true, err
}

// Of returns the users of a pod: those in its file, else new ones that are in its
// file when this returns.
func (u *UserNamespaces) Of(pod *v1.Pod) (request.UserNamespace, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	users, found, err := u.read(pod.UID)
	if found || err != nil {
		return users, err
	}
	if users, err = u.ids.Allocate(pod.UID); err != nil {
		return request.UserNamespace{}, err
	}
	if err = os.MkdirAll(u.podDir(pod.UID), 0o750); err == nil {
		err = atomicfile.Write(u.file(pod.UID), users.Encode(), 0o644)
	}
	if err != nil {
		u.ids.Release(pod.UID) // nothing can have been started with them
		return request.UserNamespace{}, err
	}
	return users, nil
}

// Release takes a pod's users back, for others to have. Nothing of the pod may run
// any longer, and its volumes must be gone: what they hold belongs to these users.
// Releasing what a pod does not have succeeds.
func (u *UserNamespaces) Release(uid types.UID) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := os.Remove(u.file(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("user namespace: %w", err)
	}
	u.ids.Release(uid)
	return nil
}

// Pods returns the pods that have users of their own, in no order, for a caller
// who looks for those that are gone.
func (u *UserNamespaces) Pods() []types.UID { return u.ids.Pods() }
