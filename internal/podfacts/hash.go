package podfacts

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// Hash returns the hash of a container's spec that is stored in the runtime: if it differs
// later, the container is replaced. It covers only name and image. It equals the kubelet's hash,
// so that this agent and a kubelet can take over each other's containers.
func Hash(c *v1.Container) uint64 {
	picked, _ := json.Marshal(map[string]string{"name": c.Name, "image": c.Image}) // strings always marshal
	// The hashed text is the form in which Go prints these bytes: ([]uint8)[123 34 ...].
	text := append(make([]byte, 0, len(picked)*4+len("([]uint8)[]")), "([]uint8)["...)
	for i, b := range picked {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendUint(text, uint64(b), 10)
	}
	h := fnv.New32a()
	_, _ = h.Write(append(text, ']')) // a hash returns no error
	return uint64(h.Sum32())
}
