package fake

import (
	"slices"
)

// Lacks is the answer to a call that Config takes away, by its name, and nil for
// others. It is there for servers, since the streaming lists are calls of the
// server alone; what wraps a Runtime passes it on.
func (rt *Runtime) Lacks(call string) error {
	if slices.Contains(rt.cfg.Unimplemented, call) {
		return unimplemented(call)
	}
	return nil
}
