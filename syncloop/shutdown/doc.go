// Package shutdown ends the pods of a node before the machine shuts down (KEP-2000, KEP-2712).
// Pods with the lowest priority end first, each group within its own period. So pods that others
// depend on, such as DNS and storage, run until the last group. A group that exceeds its period
// does not delay the next one.
//
// Groups, Period.Seconds and Terminated are pure: they return the groups of pods, the grace period
// of each pod, and the resulting status. A Manager performs the shutdown. It receives the
// announcement from a Login, delays the machine with a lock, ends the pods group by group, waits
// for their volumes, and releases the lock. It is also a syncloop.Admitter that rejects pods
// during the shutdown.
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
// After a cancelled shutdown no further group ends, and pods may start again; pods that are already
// ending continue to end. When the context of Run is done, no further pods end, and Run releases
// the lock. The next agent reads the state from the Login and continues the shutdown in the
// remaining time, without a lock.
//
// Runnable example: ExampleGroups in example_test.go.
package shutdown
