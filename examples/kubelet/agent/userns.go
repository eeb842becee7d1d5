package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/request"
)

// users gives pods with hostUsers false their own users (KEP-127), and keeps in the
// folder of each which they are.
type users struct {
	ids     *request.IDs
	folders folders
}

// newUsers takes over what the pods have that an agent has started before.
func newUsers(idsPerPod uint32, f folders, log *slog.Logger) (*users, error) {
	ids, err := request.NewIDs(request.IDRange{PerPod: idsPerPod})
	if err != nil {
		return nil, err
	}
	uids, err := f.listPods()
	if err != nil {
		return nil, err
	}
	u := &users{ids: ids, folders: f}
	for _, uid := range uids {
		has, err := u.read(uid)
		if err == nil && has != (request.UserNamespace{}) {
			err = ids.Record(uid, has)
		}
		if err != nil {
			log.Error("cannot take over the users of a pod", "uid", uid, "err", err)
		}
	}
	return u, nil
}

// read returns what the folder of a pod says, the zero value when it says nothing.
func (u *users) read(uid types.UID) (request.UserNamespace, error) {
	content, err := os.ReadFile(u.file(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return request.UserNamespace{}, nil
	}
	if err != nil {
		return request.UserNamespace{}, err
	}
	return request.DecodeUserNamespace(content)
}

func (u *users) file(uid types.UID) string {
	return filepath.Join(u.folders.pod(uid), request.UserNamespaceFile)
}

// of returns the users of a pod, and writes them down before they are used.
func (u *users) of(pod *v1.Pod) (request.UserNamespace, error) {
	has, err := u.read(pod.UID)
	if err != nil {
		return request.UserNamespace{}, fmt.Errorf("users of the pod: %w", err)
	}
	given, err := u.ids.Allocate(pod.UID)
	if err != nil || given == has {
		return given, err
	}
	if has != (request.UserNamespace{}) {
		return request.UserNamespace{}, fmt.Errorf("users of the pod: %s says %d IDs from %d, which it cannot have", u.file(pod.UID), has.Length, has.HostID)
	}
	return given, writeWhole(u.file(pod.UID), given.Encode())
}

// writeWhole writes a new file so that it is there whole or not at all, whatever
// happens meanwhile.
func writeWhole(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
