// Package cgroups keeps a cgroup for each pod of the node, in the tree and with the values
// of cri/cgroups.
//
// A Stage of the pod's life (podworkers/stages) makes it before the pod's sandbox, updates
// it when the pod's resources change, and removes it, with whatever still runs in it, when
// the pod has stopped. It finds what was left of pods that are gone by looking at the tree,
// so it keeps no file. A pod that runs elsewhere, since an agent without cgroups has started
// it, is left alone: its next sandbox is made in its cgroup.
//
// What happens to the kernel is behind Kernel. Host is the real one, with cgroup v1 or v2,
// by itself or through systemd (github.com/opencontainers/cgroups); Memory is one for tests.
package cgroups
