// Package ownership changes the group of a volume's files to a pod's fsGroup.
//
// Apply walks a folder and changes the contents before the folder itself. An interrupted walk
// therefore leaves the root unchanged, and the next one repeats it (OnRootMismatch). The walk
// never follows a symbolic link, even if a container replaces a folder by a link during the
// walk. It keeps one folder open, independent of the depth of the volume.
//
// An example that runs: ExampleApply in example_linux_test.go.
package ownership
