// Package eviction decides which pod has to go when a node runs short of memory, disk,
// inodes or process IDs, or when a pod uses more local storage than its limits allow.
//
// [Policy.Decide] is the whole decision, as a pure function over what was measured
// ([Usage]), the pods, what was remembered ([State]) and a moment:
//
//	thresholds, err := eviction.Settings{Hard: map[string]string{"memory.available": "100Mi"}}.Parse()
//	policy := eviction.Policy{Thresholds: thresholds, Transition: 5 * time.Minute}
//	d := policy.Decide(state, usage, pods, time.Now())
//
// A [Manager] is the loop around it: it measures, decides, has unused things of the node
// removed first, and kills one pod at most for a threshold, then measures anew. Only
// pods over their limits of local storage go several at a time.
//
// # Thresholds
//
// A hard threshold acts as soon as it is met, a soft one when it has been met for its
// grace period. A threshold that has acted counts as met until what it asks for and
// MinReclaim are available, so that a node does not swing around it. The conditions that
// belong to thresholds stay for the transition period after they were last met.
//
// # Unknown is not zero
//
// A signal that is missing from Usage, has no time, or one in the future, meets no
// threshold. One whose time has not advanced since the last pass is shown in the
// conditions, and nobody is killed for it again.
//
// Start with [Example].
package eviction
