// Package allocatable holds all pods together to what the node can give to them, and the
// system and the agent to what is reserved for them ("node allocatable",
// enforceNodeAllocatable):
//
//	kubepods        capacity - systemReserved - kubeReserved, of CPU (as a weight), memory,
//	                processes and huge pages; all of the capacity if "pods" is not enforced
//	systemReserved  what is reserved, in a cgroup that somebody else has made
//	kubeReserved    likewise
//
// What hard eviction keeps free is not taken off here: evicting begins before the kernel
// would have to. Values of the cgroup of all pods that cannot be set, such as a limit below
// what pods already use, are tried again: see Enforcer.Run. A reserved cgroup that is not
// there keeps the agent from beginning: see Enforcer.Reserve.
//
// An example that runs: Example in example_test.go.
package allocatable
