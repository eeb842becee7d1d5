// Package containerd has only tests: all probers against servers and commands in
// containers, on the runtimes that examples/tools/testbed provides.
package containerd
