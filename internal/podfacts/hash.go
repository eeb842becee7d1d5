package podfacts

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// Hash is the hash of a container's spec that is written to the runtime and
// compared later: when it differs, the container is replaced. Only name and
// image count. It is the one that kubelets compute, so that either takes over
// the other's containers.
func Hash(c *v1.Container) uint64 {
	picked, _ := json.Marshal(map[string]string{"name": c.Name, "image": c.Image}) // strings always marshal
	// The text that is hashed is how Go prints these bytes: ([]uint8)[123 34 ...].
	text := append(make([]byte, 0, len(picked)*4+len("([]uint8)[]")), "([]uint8)["...)
	for i, b := range picked {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendUint(text, uint64(b), 10)
	}
	h := fnv.New32a()
	_, _ = h.Write(append(text, ']')) // a hash takes everything
	return uint64(h.Sum32())
}
