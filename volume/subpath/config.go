package subpath

import (
	"errors"
	"fmt"
	"path/filepath"

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

func (c *Config) complete() error {
	switch {
	case c.Layout.Root == "":
		return errors.New("subpath: Config.Layout.Root is required")
	case !filepath.IsAbs(c.Layout.Root):
		return fmt.Errorf("subpath: Config.Layout.Root: %q is not absolute", c.Layout.Root)
	}
	if c.Mounts == nil {
		c.Mounts = &mounts.Kernel{}
	}
	return nil
}
