package garbage

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/pleg/observed"
)

// The functions of this file are pure. They select the objects that garbage collection removes.

// Policy bounds the dead containers to keep. If a pod stays, the newest instance of each of its
// containers is kept in any case: its outcome determines whether the container restarts and
// whether the pod is initialised.
type Policy struct {
	// MinAge is the minimum age of a container for its removal. Default: 0.
	MinAge time.Duration
	// MaxPerContainer is the number of dead instances to keep for each container of a pod.
	// Default: 1. A negative value means no limit.
	MaxPerContainer int
	// KeepNone removes all dead instances that have a successor, and overrides MaxPerContainer.
	KeepNone bool
	// MaxTotal bounds the dead containers to keep on the node. Containers that Policy always
	// keeps count, too, but are never removed. Zero or a negative value means no limit.
	MaxTotal int
}

// perContainer returns the limit. A negative value means no limit.
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

// unit is a container of a pod, with all its instances.
type unit struct {
	uid  types.UID
	name string
}

type container struct {
	unit
	pod     labels.Pod
	id      string
	state   observed.State
	attempt uint32
	created time.Time
	// needed is true for the newest instance that ran, if its pod stays: the pod depends on its
	// outcome.
	needed bool
}

type sandbox struct {
	uid     types.UID
	id      string
	ready   bool
	holds   bool // it has containers
	attempt uint32
	created time.Time
}

// planContainers returns the containers to remove, oldest first. removable reports whether all
// containers of a pod are to be removed.
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
			keep-- // the needed one counts
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

// deadUnits returns the removable containers, newest first in each unit, and marks the needed
// ones. It skips containers about to start: a created container that is the newest of its name.
func deadUnits(all []container, minAge time.Duration, removable func(types.UID) bool, now time.Time) map[unit][]container {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b container) int {
		// The attempt orders the instances of a container even if the clock was set back.
		return cmp.Or(cmp.Compare(b.attempt, a.attempt), newerFirst(a, b))
	})
	units := map[unit][]container{}
	seen, decided := map[unit]bool{}, map[unit]bool{}
	for _, c := range all {
		stays := !removable(c.uid)
		starting := c.state == observed.StateCreated && !seen[c.unit] && stays
		seen[c.unit] = true
		if c.state != observed.StateCreated { // only instances that ran have an outcome
			c.needed = stays && !decided[c.unit]
			decided[c.unit] = true
		}
		if c.state != observed.StateRunning && !starting && now.Sub(c.created) >= minAge {
			units[c.unit] = append(units[c.unit], c)
		}
	}
	return units
}

// overTotal returns the containers to remove so that at most limit remain. Every unit keeps an
// equal share; if that is still too much, the oldest are removed. Needed containers always stay.
// left is ordered newest first within each unit.
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

// planSandboxes returns the IDs of the sandboxes to remove: those neither ready nor with
// containers. A pod that is not removable keeps its newest sandbox.
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

// planLogDirs returns the log directories to remove: of removable pods without live containers
// and sandboxes.
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
