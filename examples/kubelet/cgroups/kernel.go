package cgroups

import (
	"context"

	"github.com/podwright/podwright/cri/cgroups"
)

// Kernel makes and changes cgroups. Its methods can be repeated and are safe for
// concurrent use. Several parts set values of the cgroup of all pods and of that of a class,
// each at times of its own: changes of one cgroup come one after the other, and of what two
// of them set the later one counts.
type Kernel interface {
	// Set gives a cgroup values, and makes it and those above it where they are not
	// there, with all controllers that pods need.
	Set(ctx context.Context, n cgroups.Name, v cgroups.Values) error
	// IsComplete tells whether a cgroup is there with all controllers that pods need.
	IsComplete(n cgroups.Name) (bool, error)
	// InUse tells whether a cgroup has processes or other cgroups in it, those of
	// containers for example.
	InUse(n cgroups.Name) (bool, error)
	// MemoryUsage is what is charged to a cgroup and all below it, in bytes.
	MemoryUsage(n cgroups.Name) (int64, error)
	// Version is that of the hierarchy, HugePageSizes those that can be limited, as the
	// kernel writes them: "2MB".
	Version() cgroups.Version
	HugePageSizes() []string
	// Children names the cgroups right below one that can be any pod's or class's:
	// there are none below one that is not there.
	Children(n cgroups.Name) ([]cgroups.Name, error)
	// Remove kills what runs in a cgroup and below it, and removes it. That it is not
	// there is no error.
	Remove(ctx context.Context, n cgroups.Name) error
}
