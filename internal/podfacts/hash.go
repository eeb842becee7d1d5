package podfacts

import (
	"encoding/json"
	"fmt"
	"hash/fnv"

	v1 "k8s.io/api/core/v1"
)

// Hash is the hash of a container's spec that is written to the runtime and
// compared later: when it differs, the container is replaced. Only name and
// image count. It is the one that kubelets compute, so that either takes over
// the other's containers.
func Hash(c *v1.Container) uint64 {
	picked, err := json.Marshal(map[string]string{"name": c.Name, "image": c.Image})
	if err != nil { // strings always marshal
		return 0
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "([]uint8)%v", picked)
	return uint64(h.Sum32())
}
