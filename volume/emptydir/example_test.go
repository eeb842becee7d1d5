package emptydir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/emptydir"
	"github.com/podwright/podwright/volume/mounts"
)

func ExamplePlugin() {
	root, err := os.MkdirTemp("", "pod")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	ctx, p := context.Background(), emptydir.New(emptydir.Config{Mounts: &mounts.Memory{}}) // an agent leaves Mounts empty
	m := volume.Mount{
		Spec: &volume.Spec{Name: "cache", Inline: &v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
		Dir:  filepath.Join(root, "cache"), StateDir: filepath.Join(root, "plugins", "cache"),
	}
	mounted, err := p.Mount(ctx, m)
	fmt.Println(mounted.Path == m.Dir, err)
	fmt.Println(p.Unmount(ctx, volume.Unmount{Name: "cache", Dir: m.Dir, StateDir: m.StateDir}))
	// Output:
	// true <nil>
	// <nil>
}
