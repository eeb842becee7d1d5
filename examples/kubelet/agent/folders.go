package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// folders are the agent's folders, laid out as an upstream kubelet has them.
type folders struct{ root string }

const private = 0o750

func (f folders) pods() string             { return filepath.Join(f.root, "pods") }
func (f folders) manifests() string        { return filepath.Join(f.root, "static_manifests") }
func (f folders) pod(uid types.UID) string { return filepath.Join(f.pods(), string(uid)) }

// ofPod tells whether a path is in a pod's folder.
func (f folders) ofPod(uid types.UID, path string) bool {
	return strings.HasPrefix(path, f.pod(uid)+string(filepath.Separator))
}

// hasPod reports whether this agent has a folder for a pod. Other agents on the machine have their own.
func (f folders) hasPod(uid types.UID) bool {
	_, err := os.Stat(f.pod(uid))
	return err == nil
}

// plugins is where CSI drivers register.
func (f folders) plugins() string { return filepath.Join(f.root, "plugins_registry") }

// shared is where drivers have the volumes that pods share, and their own folders.
func (f folders) shared() string { return filepath.Join(f.root, "plugins") }

// status is the file with what was last said of a pod. No other kubelet has one of
// this name.
func (f folders) status(uid types.UID) string {
	return filepath.Join(f.pod(uid), "podwright-status.json")
}

// prepare makes the folders of the agent itself.
func (f folders) prepare() error {
	for _, dir := range []string{f.root, f.pods(), f.shared(), f.plugins()} {
		if err := os.MkdirAll(dir, private); err != nil {
			return fmt.Errorf("root folder: %w", err)
		}
	}
	return nil
}
