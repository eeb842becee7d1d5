//go:build linux

package subpath_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/subpath"
)

func ExampleSubPaths() {
	root, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	vol := filepath.Join(root, "data")
	if err := os.Mkdir(vol, 0o755); err != nil {
		panic(err)
	}
	if err := os.Symlink("/etc", filepath.Join(vol, "link")); err != nil {
		panic(err)
	}
	paths, err := subpath.New(subpath.Config{Layout: volume.Layout{Root: root}, Mounts: &mounts.Memory{}}) // an agent leaves Mounts empty
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	s := volume.SubPath{PodUID: "7d1", Container: "web", Volume: "data", VolumePath: vol, Path: "logs/web"}
	path, err := paths.Prepare(ctx, s)
	fmt.Println(filepath.Rel(root, path))
	fmt.Println(err, paths.ReleasePod(ctx, "7d1"))
	s.Path = "link/passwd"
	_, err = paths.Prepare(ctx, s)
	fmt.Println(err)
	// Output:
	// pods/7d1/volume-subpaths/data/web/0 <nil>
	// <nil> <nil>
	// sub path: "link" in "link/passwd": leads out of the volume
}
