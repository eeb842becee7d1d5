// Package mounts is what volumes need of the kernel's mounts: to mount, to unmount, and
// to see what is mounted where.
//
// Kernel is that of a Linux node. It mounts by system calls, starts a program only for
// file systems that need one (mount.nfs), and tells by one call whether a path is a
// mount point, however long the table of mounts is. A call that the kernel does not
// finish, as one to a server that is gone, is left behind when its context ends, and
// named by Kernel.Hanging. Memory keeps a table of its own, for tests without root.
//
// An example that runs: ExampleMemory in memory_test.go.
package mounts
