// Package subpath gives containers a part of a volume without letting them out of it.
//
// Containers write to their volumes, so that any part of a path in one may become a
// symbolic link to a place of the node at any time. A sub path is therefore opened
// below the volume by the kernel (openat2), or folder by folder where it cannot do that,
// and what was opened is mounted: by its descriptor, not by a name. Links that stay
// inside the volume are followed; one that leads out is refused.
//
//	pods/UID/volume-subpaths/VOLUME/CONTAINER/INDEX
//
// is where it is mounted, as every kubelet has it.
//
// An example that runs: ExampleSubPaths in example_test.go.
package subpath

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/mounts"
)

// Config configures SubPaths. Layout is required.
type Config struct {
	// Layout says where sub paths are mounted. Its Root is an absolute path.
	Layout volume.Layout
	// Mounts mounts; nil means those of this node's kernel.
	Mounts mounts.Mounter
}

// ErrOutside is wrapped by the error of a sub path that leads out of its volume.
var ErrOutside = errors.New("leads out of the volume")

// SubPath names a part of a volume.
type SubPath = volume.SubPath

const (
	// maxPath is how long a path can be on Linux.
	maxPath = 4095
	// maxDepth is how many folders deep a sub path can be.
	maxDepth = 256
	// maxLinks is how many symbolic links are followed, as by Linux.
	maxLinks = 40
)

func check(s SubPath) error {
	for what, name := range map[string]string{"pod UID": string(s.PodUID), "container": s.Container, "volume": s.Volume} {
		if err := fs.CheckName(what, name); err != nil {
			return err
		}
	}
	parts := strings.Split(s.Path, "/")
	switch {
	case s.Index < 0:
		return fmt.Errorf("index: %d is below zero", s.Index)
	case !filepath.IsAbs(s.VolumePath):
		return fmt.Errorf("volume path: %q is not absolute", s.VolumePath)
	case filepath.IsAbs(s.Path), slices.Contains(parts, ".."), strings.Contains(s.Path, "\x00"):
		return fmt.Errorf("path: %q is not relative, or has \"..\" or a NUL byte in it", s.Path)
	case len(s.Path) > maxPath, len(parts) > maxDepth:
		return fmt.Errorf("path: more than %d bytes or %d folders", maxPath, maxDepth)
	}
	return nil
}
