package cgroups

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
)

// Driver is the program that manages cgroups, and selects their naming scheme.
type Driver string

// The drivers, named as in KubeletConfiguration.cgroupDriver.
const (
	Cgroupfs Driver = "cgroupfs"
	Systemd  Driver = "systemd"
)

const (
	podsName  = "kubepods"
	podPrefix = "pod"
	slice     = ".slice"
)

// ErrName is wrapped by the errors for names that the driver cannot express.
var ErrName = errors.New("invalid cgroup name")

// Name is a cgroup as a path from the root: ["kubepods", "burstable", "podUID"]. The empty Name is
// the root.
type Name []string

// Child returns the cgroup name below n.
func (n Name) Child(name string) Name { return append(slices.Clone(n), name) }

// Path returns the driver's path of a cgroup from the root of the hierarchy. Runtimes take it as
// cgroup_parent. It is also the folder below a mounted hierarchy.
func (d Driver) Path(n Name) string {
	if d != Systemd {
		return "/" + strings.Join(n, "/")
	}
	at, joined := "/", ""
	for _, part := range n {
		// In systemd's names a dash separates a slice from its parent.
		joined += strings.ReplaceAll(part, "-", "_")
		at = path.Join(at, joined+slice)
		joined += "-"
	}
	return at
}

// Unit returns the last element of a cgroup's path, the name of its systemd unit.
func (d Driver) Unit(n Name) string { return path.Base(d.Path(n)) }

// Parse is the inverse of Path. For systemd it parses only the last element, which contains the
// names of all parents.
func (d Driver) Parse(text string) (Name, error) {
	if !path.IsAbs(text) || path.Clean(text) != text {
		return nil, fmt.Errorf("cgroups: %q: %w: not an absolute and clean path", text, ErrName)
	}
	if text == "/" {
		return nil, nil
	}
	if d != Systemd {
		return strings.Split(text[1:], "/"), nil
	}
	unit, ok := strings.CutSuffix(path.Base(text), slice)
	if !ok {
		return nil, fmt.Errorf("cgroups: %q: %w: no suffix %s", text, ErrName, slice)
	}
	n := Name(strings.Split(unit, "-"))
	for i, part := range n {
		if part == "" {
			return nil, fmt.Errorf("cgroups: %q: %w: empty path element", text, ErrName)
		}
		n[i] = strings.ReplaceAll(part, "_", "-")
	}
	return n, nil
}

// Tree is the cgroup tree of a node's pods. Create it with NewTree.
type Tree struct {
	driver Driver
	root   Name
}

// NewTree returns the tree below root, the node's cgroupRoot: a cgroupfs path for either driver.
// Empty selects the root of the hierarchy. The systemd driver refuses a root with an underscore,
// which it cannot express.
func NewTree(driver Driver, root string) (*Tree, error) {
	if driver != Cgroupfs && driver != Systemd {
		return nil, fmt.Errorf("cgroups: driver %q is neither %q nor %q", driver, Cgroupfs, Systemd)
	}
	name, err := Cgroupfs.Parse(path.Join("/", root))
	if err != nil {
		return nil, err
	}
	if driver == Systemd && strings.Contains(root, "_") {
		return nil, fmt.Errorf("cgroups: root %q: %w: the systemd driver allows no underscore", root, ErrName)
	}
	return &Tree{driver: driver, root: name}, nil
}

// Driver returns the tree's driver.
func (t *Tree) Driver() Driver { return t.driver }

// Root returns the parent of the tree.
func (t *Tree) Root() Name { return slices.Clone(t.root) }

// Pods returns the cgroup of all pods.
func (t *Tree) Pods() Name { return t.root.Child(podsName) }

// Class returns the parent of the pods of a QoS class: for Guaranteed, the cgroup of all pods.
func (t *Tree) Class(class v1.PodQOSClass) Name {
	if class == v1.PodQOSGuaranteed {
		return t.Pods()
	}
	return t.Pods().Child(strings.ToLower(string(class)))
}

// Classes returns the QoS classes that have their own cgroup.
func Classes() []v1.PodQOSClass { return []v1.PodQOSClass{v1.PodQOSBurstable, v1.PodQOSBestEffort} }

// Pod returns the cgroup of a pod, from its UID and QoS class.
func (t *Tree) Pod(pod *v1.Pod) Name {
	return t.Class(podfacts.QOSClass(pod)).Child(podPrefix + string(pod.UID))
}

// Path returns the path of n with the tree's driver, such as a sandbox's cgroup_parent.
func (t *Tree) Path(n Name) string { return t.driver.Path(n) }

// PodOf returns the pod UID and QoS class of a cgroup. ok is false if n is not exactly the cgroup
// of a pod in this tree.
func (t *Tree) PodOf(n Name) (uid types.UID, class v1.PodQOSClass, ok bool) {
	if len(n) == 0 {
		return "", "", false
	}
	text, ok := strings.CutPrefix(n[len(n)-1], podPrefix)
	if !ok || text == "" {
		return "", "", false
	}
	for _, class := range append(Classes(), v1.PodQOSGuaranteed) {
		if slices.Equal(t.Class(class), n[:len(n)-1]) {
			return types.UID(text), class, true
		}
	}
	return "", "", false
}
