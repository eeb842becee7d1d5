package pods

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
)

// What this file does is pure: it decides what garbage collection removes.

// GCPolicy bounds what is kept of dead containers. Of a pod that stays, the newest
// instance of each container is kept in any case: what has become of it decides
// whether the container is started again, and whether the pod's initialisation is
// over.
type GCPolicy struct {
	// MinAge protects containers created less than this ago; zero protects none.
	MinAge time.Duration
	// MaxPerContainer is how many dead instances are kept for each container of
	// a pod. Zero means 1, a negative value means no limit.
	MaxPerContainer int
	// KeepNone keeps no dead instance that has a successor; MaxPerContainer does
	// not count.
	KeepNone bool
	// MaxTotal is how many dead containers are kept in all, of those that may go;
	// zero or a negative value means no limit.
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
	attempt uint32
	created time.Time
	// needed tells that the pod depends on it; planContainers finds that out.
	needed bool
}

// gcSandbox is a sandbox as garbage collection sees it.
type gcSandbox struct {
	uid     types.UID
	id      string
	ready   bool
	holds   bool // containers
	attempt uint32
	created time.Time
}

// planContainers returns the containers to remove, oldest first. removable tells
// of which pods nothing is kept.
func planContainers(all []gcContainer, policy GCPolicy, removable func(types.UID) bool, now time.Time) []gcContainer {
	var remove, left []gcContainer
	units := deadUnits(all, policy.MinAge, removable, now)
	for unit, dead := range units {
		keep := len(dead)
		if limit := policy.perContainer(); limit >= 0 {
			keep = min(keep, limit)
		}
		if removable(unit.uid) {
			keep = 0
		}
		if slices.ContainsFunc(dead, func(c gcContainer) bool { return c.needed }) {
			keep-- // it is one of them
		}
		for _, c := range dead {
			switch {
			case c.needed:
				left = append(left, c)
			case keep > 0:
				left = append(left, c)
				keep--
			default:
				remove = append(remove, c)
			}
		}
	}
	if policy.MaxTotal > 0 && len(left) > policy.MaxTotal {
		remove = append(remove, overTotal(left, policy.MaxTotal)...)
	}
	slices.SortFunc(remove, func(a, b gcContainer) int { return -newerFirst(a, b) })
	return remove
}

// deadUnits groups what may be removed at all, newest first. It marks what is
// needed of pods that stay, and leaves out what is about to be started: a container
// that was only created and is the newest of its name.
func deadUnits(all []gcContainer, minAge time.Duration, removable func(types.UID) bool, now time.Time) map[gcUnit][]gcContainer {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b gcContainer) int {
		// Attempts order the instances of a container even when a clock was set back.
		return cmp.Or(cmp.Compare(b.attempt, a.attempt), newerFirst(a, b))
	})
	units := map[gcUnit][]gcContainer{}
	seen, decided := map[gcUnit]bool{}, map[gcUnit]bool{}
	for _, c := range all {
		stays := !removable(c.uid)
		starting := c.state == pleg.StateCreated && !seen[c.gcUnit] && stays
		seen[c.gcUnit] = true
		if c.state != pleg.StateCreated { // the newest that ran is what counts
			c.needed = stays && !decided[c.gcUnit]
			decided[c.gcUnit] = true
		}
		if c.state != pleg.StateRunning && !starting && now.Sub(c.created) >= minAge {
			units[c.gcUnit] = append(units[c.gcUnit], c)
		}
	}
	return units
}

// overTotal returns what to remove for no more than limit to be left: every
// container gets the same share of it, and what is still too much is taken from
// the oldest. left is ordered newest first within each container.
func overTotal(left []gcContainer, limit int) []gcContainer {
	units := map[gcUnit]int{}
	for _, c := range left {
		units[c.gcUnit]++
	}
	share := max(limit/len(units), 1)
	clear(units)
	var remove, rest []gcContainer
	for _, c := range left {
		if units[c.gcUnit]++; units[c.gcUnit] <= share || c.needed {
			rest = append(rest, c)
		} else {
			remove = append(remove, c)
		}
	}
	slices.SortFunc(rest, func(a, b gcContainer) int { return -newerFirst(a, b) })
	for _, c := range rest {
		if over := len(left) - len(remove) - limit; over > 0 && !c.needed {
			remove = append(remove, c)
		}
	}
	return remove
}

func newerFirst(a, b gcContainer) int {
	return cmp.Or(b.created.Compare(a.created), cmp.Compare(a.id, b.id))
}

// planSandboxes returns the IDs of the sandboxes to remove: neither ready nor
// holding a container. A pod of which something is kept keeps its newest.
func planSandboxes(all []gcSandbox, removable func(types.UID) bool) []string {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b gcSandbox) int {
		return cmp.Or(cmp.Compare(b.attempt, a.attempt), b.created.Compare(a.created), cmp.Compare(a.id, b.id))
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

// planLogDirs returns the log directories to remove, by name: those of pods that may
// go and of which nothing lives.
func planLogDirs(names []string, lives map[types.UID]bool, removable func(types.UID) bool) []string {
	var remove []string
	for _, name := range names {
		if uid, ok := uidOfLogDir(name); ok && !lives[uid] && removable(uid) {
			remove = append(remove, name)
		}
	}
	return remove
}
