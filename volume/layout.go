package volume

import (
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
)

// Layout maps volumes to paths below the agent's root folder. All kubelets use the same layout,
// so one can take over from another.
type Layout struct {
	// Root is the agent's root folder, such as "/var/lib/kubelet".
	Root string
}

// Check returns an error if Root is empty or not absolute. field is the name of the Layout in
// the error, with its package: "nfs: Config.Layout".
func (l Layout) Check(field string) error {
	f := fields.Of(field)
	f.Absolute("Root", l.Root)
	return f.Err()
}

// Pod returns the folder of a pod.
func (l Layout) Pod(uid types.UID) string { return filepath.Join(l.Root, "pods", string(uid)) }

// Volumes returns the folder of a pod's volumes. It has one folder per plugin.
func (l Layout) Volumes(uid types.UID) string { return filepath.Join(l.Pod(uid), "volumes") }

// Volume returns the folder of one volume of a pod.
func (l Layout) Volume(uid types.UID, plugin, name string) string {
	return filepath.Join(l.Volumes(uid), Escape(plugin), name)
}

// Devices returns the folder with the links to a pod's block volumes. It has one folder per
// plugin.
func (l Layout) Devices(uid types.UID) string { return filepath.Join(l.Pod(uid), "volumeDevices") }

// Device returns the path of the link to a block volume of a pod.
func (l Layout) Device(uid types.UID, plugin, name string) string {
	return filepath.Join(l.Devices(uid), Escape(plugin), name)
}

// State returns the folder with a plugin's state of one volume of a pod.
func (l Layout) State(uid types.UID, plugin, name string) string {
	return filepath.Join(l.Pod(uid), "plugins", Escape(plugin), name)
}

// SubPaths returns the folder below which the sub paths of a pod's volumes are mounted.
func (l Layout) SubPaths(uid types.UID) string { return filepath.Join(l.Pod(uid), "volume-subpaths") }

// SubPath returns the mount point of a volume's sub path for a container.
func (l Layout) SubPath(uid types.UID, volume, container string, index int) string {
	return filepath.Join(l.SubPaths(uid), volume, container, strconv.Itoa(index))
}

// Plugin returns the folder for a plugin's data that belongs to no pod.
func (l Layout) Plugin(plugin string) string { return filepath.Join(l.Root, "plugins", plugin) }

// Escape converts a plugin's name to the name of its folder: "kubernetes.io~empty-dir".
func Escape(plugin string) string { return strings.ReplaceAll(plugin, "/", "~") }

// Unescape reverses Escape.
func Unescape(folder string) string { return strings.ReplaceAll(folder, "~", "/") }
