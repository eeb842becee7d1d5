// Package emptydir gives pods folders that begin empty and end with the pod: on the
// node's disk, in memory (tmpfs) or in huge pages (hugetlbfs).
//
// Plugin is the volume.Plugin for emptyDir volumes. Plugins that put content into such a
// folder mount it through their Backing: config maps on the disk, secrets in memory.
//
// A folder that is ready has a marker, an empty file "ready" in a folder of its own, as
// every kubelet has it: what has none was left half done by a crash, and is made anew.
// What a pod may put on the disk is not limited here, but by who measures usage
// (volume/usage); memory is limited by the size of the file system.
//
// An example that runs: ExamplePlugin in example_test.go.
package emptydir
