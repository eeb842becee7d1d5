// Package cgroups keeps a cgroup for each pod of the node, with the tree and values of cri/cgroups.
//
// A Stage of the pod's life (podworkers/stages) creates the cgroup before the pod's sandbox,
// updates it when the pod's resources change, and removes it with all its processes when the pod
// has stopped. It finds leftovers by listing the tree, so it needs no checkpoint. A pod that an
// agent without cgroups started in another cgroup stays there; its next sandbox is created in its
// cgroup.
//
// Kernel is the interface to the kernel. Host implements it with cgroup v1 or v2, directly or
// through systemd (github.com/opencontainers/cgroups). Memory is an implementation for tests.
package cgroups
