// Package imageref takes image names apart: "registry.example.com:5000/team/app:v1"
// into a repository, a tag and a digest.
//
//	name, err := imageref.Parse("busybox:1.36")
//	name.Repository // "busybox"
//
// Names stay as they are written in a pod's spec. Only Canonical and Full complete a
// name to the form of the runtime's own lists ("docker.io/library/busybox"), so that
// the two can be compared.
//
// An example that runs: ExampleParse in example_test.go.
package imageref
