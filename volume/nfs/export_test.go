package nfs

import "time"

// ForceAfter changes the time after which an unmount is forced.
func (p *Plugin) ForceAfter(d time.Duration) { p.forceAfter = d }
