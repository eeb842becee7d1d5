// Package subpath mounts parts of volumes for containers and keeps containers inside their
// volumes.
//
//	paths, err := subpath.New(subpath.Config{Layout: layout})
//	...
//	request.Inputs{Volumes: volumes, SubPaths: paths} // calls Prepare for each subPath
//	manager.Config{SubPaths: paths}                   // calls ReleasePod before unmounts
//
// Containers write to their volumes, so any part of a path there may become a symbolic link to
// a path of the node at any time. SubPaths therefore opens a sub path below the volume with
// openat2, or folder by folder if that is not possible. It then mounts the open descriptor
// instead of a path. Links that stay inside the volume are followed; links that lead out fail
// with ErrOutside.
//
// SubPaths needs Linux and the right to mount. An agent whose pods use no subPath does not need
// this package.
//
// A sub path is mounted at the same path as in every kubelet:
//
//	pods/UID/volume-subpaths/VOLUME/CONTAINER/INDEX
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
	// Layout contains the paths of the mount points. Its Root must be absolute.
	Layout volume.Layout
	// Mounts mounts sub paths. Default: a mounts.Kernel.
	Mounts mounts.Mounter
	// OnCreated is called when Prepare has created folders for a missing sub path. It must not
	// block. Optional.
	OnCreated func(s volume.SubPath)
}

// ErrOutside is wrapped by the error for a sub path with a link that leads out of its volume. An
// absolute path or one with ".." is refused without it.
var ErrOutside = errors.New("leads out of the volume")

const (
	// maxPath is the longest path on Linux, in bytes.
	maxPath = 4095
	// maxDepth bounds the number of folders in a sub path.
	maxDepth = 256
	// maxLinks bounds the number of followed symbolic links. Linux has the same bound.
	maxLinks = 40
)

func check(s volume.SubPath) error {
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
