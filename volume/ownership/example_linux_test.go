package ownership_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podwright/podwright/volume/ownership"
)

func ExampleApply() {
	dir, _ := os.MkdirTemp("", "volume")
	defer os.RemoveAll(dir)
	_ = os.WriteFile(filepath.Join(dir, "key"), nil, 0o600)
	_, err := ownership.Apply(context.Background(), dir, ownership.Config{
		Group: 2000,
		Chown: func(_ int, path string, _, gid int) error { fmt.Println(path, gid); return nil },
	})
	info, _ := os.Stat(filepath.Join(dir, "key"))
	fmt.Println(info.Mode(), err)
	// Output:
	// ./key 2000
	// . 2000
	// -rw-rw---- <nil>
}
