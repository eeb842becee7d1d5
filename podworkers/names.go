package podworkers

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// nameSlot is the order among static pods of one full name.
//
//	len(holders started by permission) <= 1
//	waiting: no call was made for them, in order of arrival
//
// A holder is a pod for which a call was made; it holds until it is finished or
// forgotten. There can be more than one only when a pod that never had its turn
// must be torn down, because the runtime knows it, while another one runs.
type nameSlot struct {
	holders []types.UID
	waiting []types.UID
}

// nameSlots are the slots by full name. Empty ones are not kept.
type nameSlots map[string]*nameSlot

func (n nameSlots) enqueue(name string, uid types.UID) {
	s := n.slot(name)
	s.waiting = append(s.waiting, uid)
}

// hold makes the pod a holder, whether it waited or not.
func (n nameSlots) hold(name string, uid types.UID) {
	s := n.slot(name)
	s.waiting = without(s.waiting, uid)
	if !slices.Contains(s.holders, uid) {
		s.holders = append(s.holders, uid)
	}
}

// slot returns the slot of a name, which is made if there is none.
func (n nameSlots) slot(name string) *nameSlot {
	s := n[name]
	if s == nil {
		s = &nameSlot{}
		n[name] = s
	}
	return s
}

// release removes every trace of the pod.
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

// next returns the waiter whose turn it is, and nothing if it is nobody's.
func (n nameSlots) next(name string) types.UID {
	s := n[name]
	if s == nil || len(s.holders) > 0 {
		return ""
	}
	return s.waiting[0]
}

// blocker returns who stands before a waiter, and nothing if nobody does.
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
