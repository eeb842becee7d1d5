package pods

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
)

// What this file does is pure: it decides what garbage collection removes.

// GCPolicy bounds what is kept of dead containers.
type GCPolicy struct {
	// MinAge protects containers created less than this ago; zero protects none.
	MinAge time.Duration
	// MaxPerContainer is how many dead instances are kept for each container of
	// a pod. Zero means 1, a negative value means no limit.
	MaxPerContainer int
	// KeepNone keeps no dead instance at all; MaxPerContainer does not count.
	KeepNone bool
	// MaxTotal is how many dead containers are kept in all; zero or a negative
	// value means no limit.
	MaxTotal int
}

// perContainer returns the limit, negative for none.
func (p GCPolicy) perContainer() int {
	switch {
	case p.KeepNone:
		return 0
	case p.MaxPerContainer == 0:
		return 1
	default:
		return p.MaxPerContainer
	}
}

// gcUnit is a container of a pod, over all its instances.
type gcUnit struct {
	uid  types.UID
	name string
}

// gcContainer is a container as garbage collection sees it.
type gcContainer struct {
	gcUnit
	pod     podIdentity
	id      string
	state   pleg.State
	created time.Time
}

// gcSandbox is a sandbox as garbage collection sees it.
type gcSandbox struct {
	uid     types.UID
	id      string
	ready   bool
	holds   bool // containers
	created time.Time
}

// planContainers returns the containers to remove. removable tells of which pods
// nothing is kept.
func planContainers(all []gcContainer, policy GCPolicy, removable func(types.UID) bool, now time.Time) []gcContainer {
	units := deadUnits(all, policy.MinAge, removable, now)
	var remove []gcContainer
	left := map[gcUnit][]gcContainer{}
	total := 0
	for unit, dead := range units {
		keep := len(dead)
		if limit := policy.perContainer(); limit >= 0 {
			keep = min(keep, limit)
		}
		if removable(unit.uid) {
			keep = 0
		}
		remove = append(remove, dead[keep:]...)
		if keep > 0 {
			left[unit] = dead[:keep]
			total += keep
		}
	}
	if policy.MaxTotal > 0 && total > policy.MaxTotal {
		remove = append(remove, overTotal(left, policy.MaxTotal)...)
	}
	slices.SortFunc(remove, func(a, b gcContainer) int { return -newerFirst(a, b) })
	return remove
}

// deadUnits groups what may be removed at all, newest first. A container that
// was created and is the newest of its name is about to be started.
func deadUnits(all []gcContainer, minAge time.Duration, removable func(types.UID) bool, now time.Time) map[gcUnit][]gcContainer {
	all = slices.Clone(all)
	slices.SortFunc(all, newerFirst)
	units := map[gcUnit][]gcContainer{}
	seen := map[gcUnit]bool{}
	for _, c := range all {
		newest := !seen[c.gcUnit]
		seen[c.gcUnit] = true
		starting := c.state == pleg.StateCreated && newest && !removable(c.uid)
		if c.state != pleg.StateRunning && !starting && now.Sub(c.created) >= minAge {
			units[c.gcUnit] = append(units[c.gcUnit], c)
		}
	}
	return units
}

// overTotal gives every unit the same share, and takes what is still too much
// from the oldest.
func overTotal(units map[gcUnit][]gcContainer, limit int) []gcContainer {
	share := max(limit/len(units), 1)
	var remove, rest []gcContainer
	for _, dead := range units {
		keep := min(len(dead), share)
		rest = append(rest, dead[:keep]...)
		remove = append(remove, dead[keep:]...)
	}
	slices.SortFunc(rest, newerFirst)
	return append(remove, rest[min(limit, len(rest)):]...)
}

func newerFirst(a, b gcContainer) int {
	return cmp.Or(b.created.Compare(a.created), cmp.Compare(a.id, b.id))
}

// planSandboxes returns the IDs of the sandboxes to remove: neither ready nor
// holding a container. A pod of which something is kept keeps its newest.
func planSandboxes(all []gcSandbox, removable func(types.UID) bool) []string {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b gcSandbox) int {
		return cmp.Or(b.created.Compare(a.created), cmp.Compare(a.id, b.id))
	})
	seen := map[types.UID]bool{}
	var remove []string
	for _, sb := range all {
		newest := !seen[sb.uid]
		seen[sb.uid] = true
		if !sb.ready && !sb.holds && (!newest || removable(sb.uid)) {
			remove = append(remove, sb.id)
		}
	}
	return remove
}
