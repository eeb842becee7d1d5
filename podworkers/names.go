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
	s := n[name]
	if s == nil {
		s = &nameSlot{}
		n[name] = s
	}
	s.waiting = append(s.waiting, uid)
}

// mayStart tells whether it is this waiter's turn.
func (n nameSlots) mayStart(name string, uid types.UID) bool {
	s := n[name]
	return s != nil && len(s.holders) == 0 && len(s.waiting) > 0 && s.waiting[0] == uid
}

// hold makes the pod a holder, whether it waited or not.
func (n nameSlots) hold(name string, uid types.UID) {
	n.unqueue(name, uid)
	s := n[name]
	if s == nil {
		s = &nameSlot{}
		n[name] = s
	}
	if !slices.Contains(s.holders, uid) {
		s.holders = append(s.holders, uid)
	}
}

// unqueue takes a waiter out of the queue.
func (n nameSlots) unqueue(name string, uid types.UID) {
	if s := n[name]; s != nil {
		s.waiting = without(s.waiting, uid)
		n.tidy(name)
	}
}

// release removes every trace of the pod.
func (n nameSlots) release(name string, uid types.UID) {
	if s := n[name]; s != nil {
		s.holders = without(s.holders, uid)
		s.waiting = without(s.waiting, uid)
		n.tidy(name)
	}
}

// next returns the waiter whose turn it is.
func (n nameSlots) next(name string) (types.UID, bool) {
	s := n[name]
	if s == nil || len(s.holders) > 0 || len(s.waiting) == 0 {
		return "", false
	}
	return s.waiting[0], true
}

// blocker returns who stands before a waiter.
func (n nameSlots) blocker(name string, uid types.UID) (types.UID, bool) {
	s := n[name]
	switch {
	case s == nil:
		return "", false
	case len(s.holders) > 0:
		return s.holders[0], true
	}
	if i := slices.Index(s.waiting, uid); i > 0 {
		return s.waiting[i-1], true
	}
	return "", false
}

func (n nameSlots) tidy(name string) {
	if s := n[name]; len(s.holders) == 0 && len(s.waiting) == 0 {
		delete(n, name)
	}
}

func without(uids []types.UID, uid types.UID) []types.UID {
	return slices.DeleteFunc(uids, func(other types.UID) bool { return other == uid })
}
