// Package oom detects processes that the kernel kills because memory has run out, by reading the
// kernel's log.
//
//	log, err := oom.Open()
//	w, err := oom.New(oom.Config{Log: log, OnKill: func(k oom.Kill) {
//		if k.OfNode() {
//			... // an event about the node: SystemOOM
//		}
//	}})
//	err = w.Run(ctx)
//
// A kill has one of two causes. If the node has run out of memory (Kill.OfNode), the victim may be
// any process, also one of a container. If a cgroup has reached its limit, the victim is in that
// cgroup: the runtime reports such a container (OOMKilled), and the node reports no event.
//
// Parser is the pure part: it converts lines to kills. It supports the formats of kernels since
// 3.10, with cgroup v1 and v2. It accepts only records of the kernel itself, because any process
// may write to the log. A Watcher begins at the end of the log, so that a restarted agent does not
// report old kills again.
//
// Runnable example: ExampleParser in example_test.go.
package oom
