// Package eviction decides which pod to end when a node runs short of memory, disk, inodes or
// process IDs, or when a pod exceeds its limits of local storage.
//
// [Policy.Decide] is a pure function of the measurements ([Usage]), the pods, the previous [State]
// and the time:
//
//	thresholds, err := eviction.Settings{Hard: map[string]string{"memory.available": "100Mi"}}.Parse()
//	policy := eviction.Policy{Thresholds: thresholds, Transition: 5 * time.Minute}
//	d := policy.Decide(state, usage, pods, time.Now())
//
// A [Manager] runs it periodically. In each pass it measures, decides, and removes dead containers
// and unused images first. If that does not suffice, it kills one pod and measures again. Pods over
// their limits of local storage are all killed in one pass, one after the other. A node with
// neither thresholds nor Policy.LocalStorage needs no Manager.
//
// # Thresholds
//
// A hard threshold acts as soon as it is met. A soft one acts after it has been met for its grace
// period. A threshold that has acted counts as met until Value plus MinReclaim is available, which
// prevents oscillation. A node condition stays for the transition period after one of its
// thresholds was last met.
//
// # Unknown is not zero
//
// A signal that is missing from Usage, or has no time or one in the future, meets no threshold. A
// signal whose time has not advanced since the last pass still counts for conditions, but causes
// no further eviction.
//
// Runnable example: Example in example_test.go.
package eviction
