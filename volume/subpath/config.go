package subpath

import (
	"github.com/podwright/podwright/internal/fields"
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
	if err := c.Layout.Check("subpath: Config.Layout"); err != nil {
		return err
	}
	fields.Default[mounts.Mounter](&c.Mounts, &mounts.Kernel{})
	return nil
}
