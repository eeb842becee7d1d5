// Package oom notices when the kernel kills a process because memory has run out, from what
// the kernel writes into its log.
//
//	log, err := oom.Open()
//	w, err := oom.New(oom.Config{Log: log, OnKill: func(k oom.Kill) {
//		if k.OfNode() {
//			... // an event about the node: SystemOOM
//		}
//	}})
//	err = w.Run(ctx)
//
// Whose memory has run out decides what a kill means. If it is that of the node (Kill.OfNode),
// the choice of the victim says little, and it may be anybody, also a container. If it is that of
// a cgroup with a limit, the victim is in that cgroup: a container that is over its limit is told
// of by its runtime (OOMKilled), and is nothing for the node to tell.
//
// Parser is the pure part: lines in, kills out. It reads what kernels from 3.10 on write, with
// cgroup v1 and v2. Only records of the kernel itself count; what a process writes into the log
// may say anything. A Watcher begins at the end of the log: what happened before it is not told
// again by each agent that starts.
//
// An example that runs: ExampleParser in example_test.go.
package oom
