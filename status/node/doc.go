// Package node turns what is known of a machine and of the agent on it into the
// v1.NodeStatus that an API shows: addresses, capacity and what of it pods may have,
// versions, images, what the runtime can do, and the conditions Ready, MemoryPressure,
// DiskPressure and PIDPressure with the times at which they changed.
//
// Everything in it is pure: no clock, no I/O, no client, nothing kept between calls.
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
// # Setters
//
// A status is made by an ordered list of Setters, each of which owns some fields and
// leaves the rest alone: conditions and resources that others put there stay. Ready is
// decided last, since it looks at the capacity that is there. An agent that has more to
// say appends Setters of its own to those of Setters.
//
// # What is remembered
//
// The status as it was is an input. What a fact says nothing of (nil) stays as it was:
// unknown is not the same as none. A condition keeps its transition time until its
// status changes, whoever wrote it. The same facts applied again change nothing.
//
// # When it is written
//
// Timing decides it: a change at once, an unchanged status once in a period, so that
// heartbeats are seen to move. After a change the next one is put off or brought forward
// by up to half a period, each node by another part of it, so that what changes on all
// nodes at once does not make them write together for ever. Timing.Starting is for the
// first status of an agent: the moment at which a node becomes ready is waited for by
// pods, so it is looked for often, for a while.
//
// Events are what a person wants to be told about, found by comparing the statuses
// before and after a write that has succeeded.
//
// # What it does not do
//
// It reads no machine, resolves no names and builds no patches. Labels, annotations,
// taints and leases are not part of a status. How much is reserved of a machine is
// an input.
//
// Examples that run: ExampleCompute, ExampleSetters and ExampleTiming in example_test.go.
package node
