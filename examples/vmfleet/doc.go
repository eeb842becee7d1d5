// Package vmfleet is a complete node agent without containers: each pod is a virtual machine. The
// agent (agent.go) receives its pods from a channel and boots a machine for each. It boots a
// stopped machine again, with growing pauses, and passes the status of each pod to a status.Sink.
// It may be killed and restarted at any time: machines continue to run, and machines of pods that
// were removed meanwhile are shut down.
//
// hypervisor.go stands for your hypervisor: a few calls, and an implementation of pleg.Runtime.
// The particular points are:
//
//   - A machine is its own sandbox: one container in a sandbox that is ready while the machine
//     runs. The sandbox has the pod's address.
//   - Each boot is another instance with a new container ID and a restart count increased by one.
//     The hypervisor stores restart count and exit code, so that the next agent continues counting.
//   - A stopped machine is kept until its pod is removed. It is the evidence that a pod with
//     restartPolicy Never has run.
//
// Package podworkers retries a failed call, such as a boot, after its RetryBackoff, here 20 to 30 s.
// The agent implements the back-off of machines that stop repeatedly in backOff: 10 s after the
// end, doubled with each boot up to 5 min. After a run of 10 min the pause is 10 s. The agent passes
// the end of the pause to RetryAt.
package vmfleet
