package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
)

// folders are the agent's folders, laid out as an upstream kubelet has them.
type folders struct{ root string }

const private = 0o750

func (f folders) pods() string                 { return filepath.Join(f.root, "pods") }
func (f folders) manifests() string            { return filepath.Join(f.root, "static_manifests") }
func (f folders) pod(uid types.UID) string     { return filepath.Join(f.pods(), string(uid)) }
func (f folders) volumes(uid types.UID) string { return filepath.Join(f.pod(uid), "volumes") }
func (f folders) plugins(uid types.UID) string { return filepath.Join(f.pod(uid), "plugins") }

// prepare makes the folders of the agent itself.
func (f folders) prepare() error {
	for _, dir := range []string{f.root, f.pods()} {
		if err := os.MkdirAll(dir, private); err != nil {
			return fmt.Errorf("root folder: %w", err)
		}
	}
	return nil
}

// preparePod makes the folders of a pod.
func (f folders) preparePod(uid types.UID) error {
	for _, dir := range []string{f.pod(uid), f.volumes(uid), f.plugins(uid)} {
		if err := os.MkdirAll(dir, private); err != nil {
			return fmt.Errorf("pod folder: %w", err)
		}
	}
	return nil
}

// removePod removes the folders of a pod that is gone.
func (f folders) removePod(uid types.UID) error {
	if err := os.RemoveAll(f.pod(uid)); err != nil {
		return fmt.Errorf("pod folder: %w", err)
	}
	return nil
}

// listPods lists the pods that have a folder.
func (f folders) listPods() ([]types.UID, error) {
	entries, err := os.ReadDir(f.pods())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var uids []types.UID
	for _, e := range entries {
		if e.IsDir() {
			uids = append(uids, types.UID(e.Name()))
		}
	}
	return uids, nil
}
