package garbage

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/pleg/observed"
)

// What this file does is pure: it decides what garbage collection removes.

// Policy bounds what is kept of dead containers. Of a pod that stays, the newest
// instance of each container is kept in any case: what has become of it decides
// whether the container is started again, and whether the pod's initialisation is
// over.
type Policy struct {
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
func (p Policy) perContainer() int {
	switch {
	case p.KeepNone:
		return 0
	case p.MaxPerContainer == 0:
		return 1
	default:
		return p.MaxPerContainer
	}
}

// unit is a container of a pod, over all its instances.
type unit struct {
	uid  types.UID
	name string
}

// container is a container as garbage collection sees it.
type container struct {
	unit
	pod     labels.Pod
	id      string
	state   observed.State
	attempt uint32
	created time.Time
	// needed tells that a pod which stays depends on it: the newest of its name that
	// ran.
	needed bool
}

// sandbox is a sandbox as garbage collection sees it.
type sandbox struct {
	uid     types.UID
	id      string
	ready   bool
	holds   bool // containers
	attempt uint32
	created time.Time
}

// planContainers returns the containers to remove, oldest first. removable tells
// of which pods nothing is kept.
func planContainers(all []container, policy Policy, removable func(types.UID) bool, now time.Time) []container {
	var remove, left []container
	units := deadUnits(all, policy.MinAge, removable, now)
	for unit, dead := range units {
		keep := len(dead)
		if limit := policy.perContainer(); limit >= 0 {
			keep = min(keep, limit)
		}
		if removable(unit.uid) {
			keep = 0
		}
		if slices.ContainsFunc(dead, func(c container) bool { return c.needed }) {
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
	slices.SortFunc(remove, func(a, b container) int { return -newerFirst(a, b) })
	return remove
}

// deadUnits groups what may be removed at all, newest first. It marks what is
// needed of pods that stay, and leaves out what is about to be started: a container
// that was only created and is the newest of its name.
func deadUnits(all []container, minAge time.Duration, removable func(types.UID) bool, now time.Time) map[unit][]container {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b container) int {
		// Attempts order the instances of a container even when a clock was set back.
		return cmp.Or(cmp.Compare(b.attempt, a.attempt), newerFirst(a, b))
	})
	units := map[unit][]container{}
	seen, decided := map[unit]bool{}, map[unit]bool{}
	for _, c := range all {
		stays := !removable(c.uid)
		starting := c.state == observed.StateCreated && !seen[c.unit] && stays
		seen[c.unit] = true
		if c.state != observed.StateCreated { // the newest that ran is what counts
			c.needed = stays && !decided[c.unit]
			decided[c.unit] = true
		}
		if c.state != observed.StateRunning && !starting && now.Sub(c.created) >= minAge {
			units[c.unit] = append(units[c.unit], c)
		}
	}
	return units
}

// overTotal returns what to remove for no more than limit to be left: every
// container gets the same share of it, and what is still too much is taken from
// the oldest. left is ordered newest first within each container.
func overTotal(left []container, limit int) []container {
	units := map[unit]int{}
	for _, c := range left {
		units[c.unit]++
	}
	share := max(limit/len(units), 1)
	clear(units)
	var remove, rest []container
	for _, c := range left {
		if units[c.unit]++; units[c.unit] <= share || c.needed {
			rest = append(rest, c)
		} else {
			remove = append(remove, c)
		}
	}
	slices.SortFunc(rest, func(a, b container) int { return -newerFirst(a, b) })
	for _, c := range rest {
		if over := len(left) - len(remove) - limit; over > 0 && !c.needed {
			remove = append(remove, c)
		}
	}
	return remove
}

func newerFirst(a, b container) int {
	return cmp.Or(b.created.Compare(a.created), cmp.Compare(a.id, b.id))
}

// planSandboxes returns the IDs of the sandboxes to remove: neither ready nor
// holding a container. A pod of which something is kept keeps its newest.
func planSandboxes(all []sandbox, removable func(types.UID) bool) []string {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b sandbox) int {
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

// planLogDirs returns the log directories to remove: those of pods that may go and of
// which nothing lives.
func planLogDirs(dirs map[types.UID][]string, lives map[types.UID]bool, removable func(types.UID) bool) []string {
	var remove []string
	for uid, of := range dirs {
		if !lives[uid] && removable(uid) {
			remove = append(remove, of...)
		}
	}
	slices.Sort(remove)
	return remove
}
