// Package node computes the v1.NodeStatus of a node from facts about its machine and agent:
// addresses, capacity and allocatable resources, versions, images, features of the runtime, and
// the conditions Ready, MemoryPressure, DiskPressure and PIDPressure with their transition times.
//
//	status := node.Compute(old, node.Facts{ // old: as it was read from the API
//		Now:      time.Now(),
//		Machine:  &node.Machine{ID: id, Cores: 4, Memory: 8 << 30},
//		MaxPods:  110,
//		NotReady: problems, // empty: the node is ready
//	})
//	if timing.Due(last, time.Now(), node.Changed(old, status)) {
//		// write it, then
//		last = timing.Wrote(last, time.Now(), node.Changed(old, status))
//		events := node.Events(name, old, status)
//	}
//
// All functions are pure: without a clock, I/O, a client or memory between calls.
//
// # Setters
//
// A status is the result of an ordered list of Setters. Each owns some fields and keeps the rest:
// conditions and resources of other components stay. Ready comes last, because it depends on the
// capacity. An agent with more fields appends its own Setters.
//
// # State across calls
//
// The previous status is an input. A nil fact is unknown and leaves its fields unchanged. A
// condition keeps its transition time until its status changes, even if another component set it.
// A second call with the same facts changes no field.
//
// # Schedule of writes
//
// Timing decides when a status is written: a changed one at once, an unchanged one once per
// period, so that heartbeats advance. After a change the next write is shifted by up to half a
// period, by a different part for each node, so that a change on all nodes at once does not
// synchronize their writes. Timing.Starting is for the first ready status of an agent: because
// pods wait for it, an agent checks for it frequently during its first minutes.
//
// Events returns the node's events from the statuses before and after a successful write.
//
// # Limits
//
// The package reads no machine, resolves no names and builds no patches. Labels, annotations,
// taints and leases are not part of a status. The reserved resources are an input.
//
// Runnable examples: ExampleCompute, ExampleSetters and ExampleTiming in example_test.go.
package node
