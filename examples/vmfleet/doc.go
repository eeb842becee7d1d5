// Package vmfleet is a whole node agent without containers: a pod is a virtual machine.
// The agent (agent.go) takes its pods from a channel, starts a machine for each, boots
// it again when it stops, with growing pauses, and tells the status of each pod to a
// function. It may be killed and started again at any time: machines run on, and those
// of pods that are gone since are shut down.
//
// hypervisor.go stands for the hypervisor that you have: a few calls, and what makes it
// a pleg.Runtime. What is its own here:
//
//   - a machine is its own sandbox: one container in a sandbox that is ready as long as
//     the machine runs, which is where the pod's address comes from;
//   - each boot is another instance: another container ID, and one restart more. How often
//     a machine was booted and how it ended is kept by the hypervisor, not by the agent, so
//     that the next agent goes on counting;
//   - a machine that has ended stays until its pod is gone: it is what tells that a pod
//     with restartPolicy Never has run.
//
// Pauses are the agent's own, too. Package podworkers repeats a call that failed, such as a
// boot, always after 10 to 15 s. A machine that was booted and ends again and again is held
// back by hold: until 10 s after its end, doubled with each boot up to 5 min, and 10 s again
// once it has run for 10 min. RetryAt says when to look again.
package vmfleet
