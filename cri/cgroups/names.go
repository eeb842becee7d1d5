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

// Driver is who makes cgroups, and thereby how they are called.
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

// ErrName is wrapped by the errors of names that a driver cannot write down.
var ErrName = errors.New("no name of a cgroup")

// Name is a cgroup, from the root downwards: ["kubepods", "burstable", "podUID"]. The
// empty Name is the root.
type Name []string

// Child is the cgroup of a name below n.
func (n Name) Child(name string) Name { return append(slices.Clone(n), name) }

// Path is how the driver calls a cgroup, from the root of the hierarchy: what a runtime
// takes as cgroup_parent, and the folder below a mounted hierarchy.
func (d Driver) Path(n Name) string {
	if d != Systemd {
		return "/" + strings.Join(n, "/")
	}
	at, joined := "/", ""
	for _, part := range n {
		// A dash separates a slice from its parent's name.
		joined += strings.ReplaceAll(part, "-", "_")
		at = path.Join(at, joined+slice)
		joined += "-"
	}
	return at
}

// Unit is the last element of a cgroup's path, by which systemd knows it.
func (d Driver) Unit(n Name) string { return path.Base(d.Path(n)) }

// Parse is the inverse of Path. Of systemd's it looks at the last element only: it
// names all that are above it.
func (d Driver) Parse(text string) (Name, error) {
	if !path.IsAbs(text) || path.Clean(text) != text {
		return nil, fmt.Errorf("cgroups: %q: %w: it is not absolute and clean", text, ErrName)
	}
	if text == "/" {
		return nil, nil
	}
	if d != Systemd {
		return strings.Split(text[1:], "/"), nil
	}
	unit, ok := strings.CutSuffix(path.Base(text), slice)
	if !ok {
		return nil, fmt.Errorf("cgroups: %q: %w: it does not end with %s", text, ErrName, slice)
	}
	n := Name(strings.Split(unit, "-"))
	for i, part := range n {
		if part == "" {
			return nil, fmt.Errorf("cgroups: %q: %w: a part of it is empty", text, ErrName)
		}
		n[i] = strings.ReplaceAll(part, "_", "-")
	}
	return n, nil
}

// Tree is where a node's pods are. Use NewTree.
type Tree struct {
	driver Driver
	root   Name
}

// NewTree returns the tree below root, the node's cgroupRoot: a path in the cgroupfs
// driver's words, whatever the driver is. Empty means the root of the hierarchy. A root
// with an underscore has no name in systemd's words and is refused.
func NewTree(driver Driver, root string) (*Tree, error) {
	if driver != Cgroupfs && driver != Systemd {
		return nil, fmt.Errorf("cgroups: driver %q is neither %q nor %q", driver, Cgroupfs, Systemd)
	}
	name, err := Cgroupfs.Parse(path.Join("/", root))
	if err != nil {
		return nil, err
	}
	if driver == Systemd && strings.Contains(root, "_") {
		return nil, fmt.Errorf("cgroups: root %q: %w: systemd's cannot have an underscore", root, ErrName)
	}
	return &Tree{driver: driver, root: name}, nil
}

// Driver is the tree's driver.
func (t *Tree) Driver() Driver { return t.driver }

// Root is the cgroup below which the tree is.
func (t *Tree) Root() Name { return slices.Clone(t.root) }

// Pods is the cgroup of all pods.
func (t *Tree) Pods() Name { return t.root.Child(podsName) }

// Class is the cgroup in which the pods of a class are: that of all pods for Guaranteed.
func (t *Tree) Class(class v1.PodQOSClass) Name {
	if class == v1.PodQOSGuaranteed {
		return t.Pods()
	}
	return t.Pods().Child(strings.ToLower(string(class)))
}

// Classes are the classes with a cgroup of their own.
func Classes() []v1.PodQOSClass { return []v1.PodQOSClass{v1.PodQOSBurstable, v1.PodQOSBestEffort} }

// Pod is the cgroup of a pod, by its UID and its class.
func (t *Tree) Pod(pod *v1.Pod) Name {
	return t.Class(podfacts.QOSClass(pod)).Child(podPrefix + string(pod.UID))
}

// Path is what a runtime is told as the parent of a pod's sandbox.
func (t *Tree) Path(n Name) string { return t.driver.Path(n) }

// PodOf tells whose a cgroup is. It is false for what is no pod's, or lies deeper or
// elsewhere.
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
