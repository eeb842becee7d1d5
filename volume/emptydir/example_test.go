package emptydir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podwright/podwright/volume/emptydir"
	"github.com/podwright/podwright/volume/mounts"
)

func ExamplePrepare() {
	root, err := os.MkdirTemp("", "pod")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	ctx, m := context.Background(), &mounts.Memory{} // &mounts.Kernel{} on a node
	f := emptydir.Folder{
		Dir:    filepath.Join(root, "keys"),
		Marker: emptydir.WrappedMarker(filepath.Join(root, "plugins", "kubernetes.io~secret", "keys")),
		Memory: true,
	}
	fmt.Println(emptydir.Prepare(ctx, m, f))
	fmt.Println(emptydir.Prepare(ctx, m, f))
	fmt.Println(emptydir.Remove(ctx, m, f.Dir, f.Marker))
	// Output:
	// true <nil>
	// false <nil>
	// <nil>
}
