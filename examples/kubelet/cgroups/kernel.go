package cgroups

import (
	"context"

	"github.com/podwright/podwright/cri/cgroups"
)

// Kernel makes and changes cgroups. Its methods can be repeated and are safe for
// concurrent use on different cgroups.
type Kernel interface {
	// Set gives a cgroup values, and makes it and those above it where they are not
	// there, with all controllers that pods need.
	Set(ctx context.Context, n cgroups.Name, v cgroups.Values) error
	// IsComplete tells whether a cgroup is there with all controllers that pods need.
	IsComplete(n cgroups.Name) (bool, error)
	// Children names the cgroups right below one that can be any pod's or class's:
	// there are none below one that is not there.
	Children(n cgroups.Name) ([]cgroups.Name, error)
	// Remove kills what runs in a cgroup and below it, and removes it. That it is not
	// there is no error.
	Remove(ctx context.Context, n cgroups.Name) error
}
