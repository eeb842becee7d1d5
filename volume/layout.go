package volume

import (
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
)

// Layout is where volumes are on the disk, below the root folder of the agent. It is
// that of every kubelet, so that one can take over from the other.
type Layout struct {
	// Root is the agent's folder, "/var/lib/kubelet".
	Root string
}

// Check refuses a Layout without a Root, or one whose Root is not absolute. field names
// it with its package: "nfs: Config.Layout".
func (l Layout) Check(field string) error {
	f := fields.Of(field)
	f.Absolute("Root", l.Root)
	return f.Err()
}

// Pod is a pod's folder.
func (l Layout) Pod(uid types.UID) string { return filepath.Join(l.Root, "pods", string(uid)) }

// Volumes is the folder with a pod's volumes, in a folder for each plugin.
func (l Layout) Volumes(uid types.UID) string { return filepath.Join(l.Pod(uid), "volumes") }

// Volume is the folder of a volume of a pod.
func (l Layout) Volume(uid types.UID, plugin, name string) string {
	return filepath.Join(l.Volumes(uid), Escape(plugin), name)
}

// Devices is the folder with links to a pod's block volumes, in a folder for each plugin.
func (l Layout) Devices(uid types.UID) string { return filepath.Join(l.Pod(uid), "volumeDevices") }

// Device is the link to a block volume of a pod.
func (l Layout) Device(uid types.UID, plugin, name string) string {
	return filepath.Join(l.Devices(uid), Escape(plugin), name)
}

// State is where a plugin keeps what it must remember about a volume of a pod.
func (l Layout) State(uid types.UID, plugin, name string) string {
	return filepath.Join(l.Pod(uid), "plugins", Escape(plugin), name)
}

// SubPaths is the folder in which the sub paths of a pod's volumes are mounted.
func (l Layout) SubPaths(uid types.UID) string { return filepath.Join(l.Pod(uid), "volume-subpaths") }

// SubPath is where a sub path of a volume is mounted for a container.
func (l Layout) SubPath(uid types.UID, volume, container string, index int) string {
	return filepath.Join(l.SubPaths(uid), volume, container, strconv.Itoa(index))
}

// Plugin is the folder in which a plugin keeps what is no pod's.
func (l Layout) Plugin(plugin string) string { return filepath.Join(l.Root, "plugins", plugin) }

// Escape makes a plugin's name that of a folder: "kubernetes.io~empty-dir".
func Escape(plugin string) string { return strings.ReplaceAll(plugin, "/", "~") }

// Unescape is the reverse of Escape.
func Unescape(folder string) string { return strings.ReplaceAll(folder, "~", "/") }
