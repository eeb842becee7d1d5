package probe

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
)

// guardCallbacks logs panics of callbacks, so that probes continue. Status returns nil after a
// panic.
func (c *Config) guardCallbacks() {
	log := c.Logger
	guard := func(what string, f func()) {
		err := run.Guard(what, func() error { f(); return nil })
		if err != nil {
			log.Error("a callback of the prober manager panicked", "err", err, "stack", run.StackOf(err))
		}
	}
	status := c.Status
	c.Status = func(uid types.UID) (s *v1.PodStatus) {
		guard("Config.Status", func() { s = status(uid) })
		return s
	}
	if changed := c.OnChange; changed != nil {
		c.OnChange = func(change Change) { guard("Config.OnChange", func() { changed(change) }) }
	}
	if event := c.Event; event != nil {
		c.Event = func(ref v1.ObjectReference, eventtype, reason, message string) {
			guard("Config.Event", func() { event(ref, eventtype, reason, message) })
		}
	}
	if probed := c.Metrics.OnProbe; probed != nil {
		c.Metrics.OnProbe = func(p Probed) { guard("Config.Metrics.OnProbe", func() { probed(p) }) }
	}
	if removed := c.Metrics.OnRemove; removed != nil {
		c.Metrics.OnRemove = func(s Series) { guard("Config.Metrics.OnRemove", func() { removed(s) }) }
	}
}
