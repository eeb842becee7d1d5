// Package imageref takes image names apart: "registry.example.com:5000/team/app:v1"
// into a repository, a tag and a digest.
//
//	name, err := imageref.Parse("busybox:1.36")
//	name.Repository // "busybox"
//
// It keeps names as they are written: what a pod's spec says is what the runtime
// is asked for. Only Canonical and Full complete a name to the one that the runtime's own
// lists show ("docker.io/library/busybox"), so that the two can be compared.
//
// An example that runs: ExampleParse in example_test.go.
package imageref
