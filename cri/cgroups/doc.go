// Package cgroups knows what the cgroups of a node's pods are called and which values
// they have. It is pure: it reads and writes no file. Who applies it, and with what, is
// the agent's matter.
//
// # The tree
//
// All pods live below one cgroup, kubepods. Guaranteed pods are its children; the others
// are below a cgroup of their class, so that all BestEffort pods together weigh no more
// than one container without a request:
//
//	cgroupfs                            systemd
//	/kubepods                           /kubepods.slice
//	/kubepods/podUID                    /kubepods.slice/kubepods-podUID.slice
//	/kubepods/burstable/podUID          /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice
//	/kubepods/besteffort/podUID         and so on; a UID's dashes are underscores
//
// A [Tree] turns classes and pods into a [Name], and names into paths and back: PodOf
// finds out whose a cgroup is, which is how those of pods that are gone are found.
//
// # The values
//
// [ForPod], [ForClass] and [ForNode] compute [Values]: CPU shares, quota and period, memory,
// numbers of processes and huge pages. Files says what they are in the files of cgroup v1
// or v2. CPU weights of v2 are the linear mapping of the shares (KEP-2254), as nodes use
// it for pods and classes; runtimes map those of containers differently.
//
// Start with [Example].
package cgroups
