package fake

import (
	"slices"
)

// Lacks returns an Unimplemented error if call is in Config.Unimplemented, and nil otherwise.
// Servers call it, because the streaming lists exist only in the server. A wrapper of a Runtime
// should pass it on.
func (rt *Runtime) Lacks(call string) error {
	if slices.Contains(rt.cfg.Unimplemented, call) {
		return unimplemented(call)
	}
	return nil
}
