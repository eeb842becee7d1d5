package pleg

import (
	"slices"

	"github.com/podwright/podwright/pleg/observed"
)

// keepIPs returns the addresses for the new status: its own, or else the addresses of the newest
// sandbox. Once no sandbox is ready and the network may be removed, it returns the previous
// addresses. A ready sandbox without an address has none.
func keepIPs(s, old *observed.Pod) []string {
	if len(s.IPs) > 0 {
		return s.IPs
	}
	if len(s.Sandboxes) > 0 && len(s.Sandboxes[0].IPs) > 0 {
		return s.Sandboxes[0].IPs
	}
	ready := func(sb observed.Sandbox) bool { return sb.State == observed.SandboxReady }
	if old == nil || s.Empty() || slices.ContainsFunc(s.Sandboxes, ready) {
		return nil
	}
	return old.IPs
}
