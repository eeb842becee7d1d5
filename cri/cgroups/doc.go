// Package cgroups computes the names and values of the cgroups of a node's pods. It is pure: it
// neither reads nor writes files. The agent applies the results.
//
// # The tree
//
// All pods are below one cgroup, kubepods. Guaranteed pods are its children. Burstable and
// BestEffort pods are below a cgroup of their QoS class, so that all BestEffort pods combined have
// no more CPU weight than one container without a request:
//
//	cgroupfs                            systemd
//	/kubepods                           /kubepods.slice
//	/kubepods/podUID                    /kubepods.slice/kubepods-podUID.slice
//	/kubepods/burstable/podUID          /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice
//	/kubepods/besteffort/podUID         and so on; a UID's dashes are underscores
//
// A [Tree] maps QoS classes and pods to a [Name], and names to paths and back. PodOf returns the
// pod UID of a cgroup; an agent uses it to find the cgroups of orphans.
//
// # The values
//
// [ForPod], [ForClass] and [ForNode] compute [Values]: CPU shares, quota and period, memory,
// numbers of processes and huge pages. Files converts them to the files of cgroup v1 or v2. The
// CPU weights of v2 are a linear mapping of the shares (KEP-2254), as nodes use it for pods and
// classes; runtimes map the weights of containers differently.
//
// All functions and methods are safe for concurrent use. See [Example].
package cgroups
