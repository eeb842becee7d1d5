// Package simulator simulates a fleet of nodes in one process: each node has a container runtime in
// memory (cri/fake) and the agent of cri/podsyncer. In a bubble of testing/synctest ten minutes of
// 3,000 pods take 20 s of CPU time, without root, containers or a cluster:
//
//	go test -v ./examples/simulator -nodes 30 -pods 100 -for 10m
//
// Use it to try a scheduler, a rollout or an operator against nodes that behave like real ones:
// back-off, restart policies, grace periods and crashes of the agent are those of the library.
package simulator
