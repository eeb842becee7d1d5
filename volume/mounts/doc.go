// Package mounts mounts and unmounts file systems for volumes and lists existing mounts.
//
// Kernel is the Mounter of a Linux node. It uses system calls, and starts a program only for
// file systems that need one (mount.nfs). One system call finds out whether a path is a mount
// point, independent of the length of the mount table. If the kernel blocks a call, for example
// on an unreachable server, the method returns when its context ends; Kernel.Hanging lists such
// calls. Memory is an in-memory Mounter for tests without root.
//
// An example that runs: ExampleMemory in memory_test.go.
package mounts
