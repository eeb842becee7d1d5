// Package shutdown ends the pods of a node before the node itself ends (KEP-2000,
// KEP-2712): the least important ones first, each group within its own time, so that
// what others depend on, DNS and storage for instance, is there until the last.
//
// Groups, Period.Seconds and Terminated decide, without clock or I/O: which pods end together,
// how long each one gets, and what its status says afterwards. A Manager carries it
// out. It learns from a Login that the machine is about to go down, delays that by a
// lock, ends the pods group by group, waits for their volumes, and lets go of the
// lock. It is also a syncloop.Admitter: as long as the node goes down, no pod starts.
//
//	manager, err := shutdown.New(shutdown.Config{
//		Periods: shutdown.Periods(30*time.Second, 10*time.Second),
//		Login:   logind,
//		Pods:    active,
//		Kill:    kill,
//	})
//	admit := syncloop.AdmitAll(manager, others)
//	err = manager.Run(ctx)
//
// A shutdown that is cancelled ends no further group, and pods may start again; what
// was already told to end does. The end of Run's context is the end of the agent, not
// of the pods: nothing more is told to end. The agent that comes after it asks the
// Login, and goes on.
//
// An example that runs: ExampleGroups in example_test.go.
package shutdown
