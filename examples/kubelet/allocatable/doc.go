// Package allocatable limits all pods together to the allocatable resources of the node, and the
// system and the agent to their reservations ("node allocatable", enforceNodeAllocatable):
//
//	kubepods        capacity - systemReserved - kubeReserved, of CPU (as a weight), memory,
//	                processes and huge pages; the whole capacity if "pods" is not enforced
//	systemReserved  the reservation, in an existing cgroup
//	kubeReserved    likewise
//
// The thresholds of hard eviction are not subtracted here: eviction starts before the kernel
// reaches the limit. Enforcer.Run retries values of the cgroup of all pods that cannot be set, such
// as a limit below the pods' current usage. A missing reserved cgroup stops the agent from
// starting: see Enforcer.Reserve.
//
// Runnable example: Example in example_test.go.
package allocatable
