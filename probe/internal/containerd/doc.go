// Package containerd contains tests of all probers with servers and commands in containers, on
// the runtimes of examples/tools/testbed.
package containerd
