// Package imageref parses image names: "registry.example.com:5000/team/app:v1" has a repository, a
// tag and a digest.
//
//	name, err := imageref.Parse("busybox:1.36")
//	name.Repository // "busybox"
//
// Names stay as they are written in a pod's spec. Only Canonical and Full complete a name to the
// form in the runtime's lists ("docker.io/library/busybox"), so that both can be compared. All
// functions are safe for concurrent use.
//
// An example that runs: ExampleParse in example_test.go.
package imageref
