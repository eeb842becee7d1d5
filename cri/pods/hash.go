package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// Hash is the hash of a container's spec that is written to the runtime and
// compared later: when it differs, the container is replaced. Only name and
// image count. It is the one that kubelets compute, so that either takes over
// the other's containers.
func Hash(c *v1.Container) uint64 { return podfacts.Hash(c) }
