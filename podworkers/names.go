package podworkers

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// nameSlot is the order among static pods with one full name.
//
//	len(holders started by permission) <= 1
//	waiting: no call was made for them, in order of arrival
//
// A pod becomes a holder with its first call, and stays one until it is finished or forgotten.
// Two holders occur only if a waiting pod is in the runtime and must be stopped while another
// one runs.
type nameSlot struct {
	holders []types.UID
	waiting []types.UID
}

// nameSlots maps full names to slots, without empty ones.
type nameSlots map[string]*nameSlot

func (n nameSlots) enqueue(name string, uid types.UID) {
	s := n.slot(name)
	s.waiting = append(s.waiting, uid)
}

// occupy makes the pod a holder, whether or not it waited.
func (n nameSlots) occupy(name string, uid types.UID) {
	s := n.slot(name)
	s.waiting = without(s.waiting, uid)
	if !slices.Contains(s.holders, uid) {
		s.holders = append(s.holders, uid)
	}
}

func (n nameSlots) slot(name string) *nameSlot {
	s := n[name]
	if s == nil {
		s = &nameSlot{}
		n[name] = s
	}
	return s
}

func (n nameSlots) release(name string, uid types.UID) {
	s := n[name]
	if s == nil {
		return
	}
	s.holders, s.waiting = without(s.holders, uid), without(s.waiting, uid)
	if len(s.holders) == 0 && len(s.waiting) == 0 {
		delete(n, name)
	}
}

// next returns the first waiter if the slot has no holder, and "" otherwise.
func (n nameSlots) next(name string) types.UID {
	s := n[name]
	if s == nil || len(s.holders) > 0 {
		return ""
	}
	return s.waiting[0]
}

// blocked reports whether the pod waits for another one.
func (n nameSlots) blocked(name string, uid types.UID) bool {
	s := n[name]
	return s != nil && slices.Contains(s.waiting, uid) && n.blocker(name, uid) != ""
}

// blocker returns the pod that blocks a waiter, or "" if it is not blocked.
func (n nameSlots) blocker(name string, uid types.UID) types.UID {
	s := n[name]
	switch {
	case s == nil:
		return ""
	case len(s.holders) > 0:
		return s.holders[0]
	}
	if i := slices.Index(s.waiting, uid); i > 0 {
		return s.waiting[i-1]
	}
	return ""
}

func without(uids []types.UID, uid types.UID) []types.UID {
	return slices.DeleteFunc(uids, func(other types.UID) bool { return other == uid })
}
