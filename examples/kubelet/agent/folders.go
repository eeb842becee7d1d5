package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// folders are the agent's folders, in the layout of an upstream kubelet.
type folders struct{ root string }

const private = 0o750

func (f folders) pods() string             { return filepath.Join(f.root, "pods") }
func (f folders) manifests() string        { return filepath.Join(f.root, "static_manifests") }
func (f folders) pod(uid types.UID) string { return filepath.Join(f.pods(), string(uid)) }

func (f folders) ofPod(uid types.UID, path string) bool {
	return strings.HasPrefix(path, f.pod(uid)+string(filepath.Separator))
}

// hasPod reports whether this agent has a folder for a pod. Other agents on the machine have their
// own folders.
func (f folders) hasPod(uid types.UID) bool {
	_, err := os.Stat(f.pod(uid))
	return err == nil
}

// plugins returns the folder of the sockets that CSI drivers register.
func (f folders) plugins() string { return filepath.Join(f.root, "plugins_registry") }

// shared returns the folder of the volumes that pods share and of the drivers' own folders.
func (f folders) shared() string { return filepath.Join(f.root, "plugins") }

// status returns the file with the saved status of a pod. Upstream kubelets have no file of this
// name.
func (f folders) status(uid types.UID) string {
	return filepath.Join(f.pod(uid), "podwright-status.json")
}

func (f folders) prepare() error {
	for _, dir := range []string{f.root, f.pods(), f.shared(), f.plugins()} {
		if err := os.MkdirAll(dir, private); err != nil {
			return fmt.Errorf("root folder: %w", err)
		}
	}
	return nil
}
