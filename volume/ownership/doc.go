// Package ownership gives a volume's files to a pod's fsGroup.
//
// Apply walks a folder, contents before the folder itself, so that a walk that was cut
// short is seen at the root and begun again (OnRootMismatch). It never follows a
// symbolic link, also not one that a container puts in the place of a folder during
// the walk, and holds one folder open however deep the volume is.
//
// An example that runs: ExampleApply in example_linux_test.go.
package ownership
