package cgroups

import (
	"context"

	"github.com/podwright/podwright/cri/cgroups"
)

// Kernel creates and changes cgroups. Its methods are idempotent and safe for concurrent use.
// Concurrent changes of one cgroup are serialized; for a value that several callers set, the last
// one wins.
type Kernel interface {
	// Set sets values of a cgroup. It creates the cgroup and its ancestors if they are missing,
	// with all required controllers.
	Set(ctx context.Context, n cgroups.Name, v cgroups.Values) error
	// IsComplete reports whether a cgroup exists with all required controllers.
	IsComplete(n cgroups.Name) (bool, error)
	// InUse reports whether a cgroup has processes or child cgroups, such as cgroups of containers.
	InUse(n cgroups.Name) (bool, error)
	// MemoryUsage returns the memory charged to a cgroup and its descendants, in bytes.
	MemoryUsage(n cgroups.Name) (int64, error)
	// Version returns the version of the hierarchy. HugePageSizes returns the page sizes that can
	// be limited, in the kernel's notation: "2MB".
	Version() cgroups.Version
	HugePageSizes() []string
	// Children returns the direct children of a cgroup that may belong to a pod or a class. A
	// missing cgroup has no children.
	Children(n cgroups.Name) ([]cgroups.Name, error)
	// Remove kills the processes in a cgroup and its descendants, and removes it. Removing a
	// missing cgroup is no error.
	Remove(ctx context.Context, n cgroups.Name) error
}
