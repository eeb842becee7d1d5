// Package emptydir mounts emptyDir volumes: empty folders that are deleted with their pod, on
// the node's disk, in memory (tmpfs) or in huge pages (hugetlbfs).
//
// A folder has the mode 0777, in memory 1777 as in every kubelet. Huge pages have 0777 here and
// 0755 upstream, so that containers without root can use them.
//
// Plugin implements volume.Plugin for them. Package projected uses a Plugin for the folders of
// its volumes: config maps on the disk, secrets in memory.
//
// A folder is complete if it has a marker: an empty file "ready" in a folder of its own, as in
// every kubelet. A crash may leave a folder without a marker; Mount then completes it. The
// package does not limit usage of the disk; that is the task of a caller with volume/usage. The
// size of the file system limits usage of memory.
//
// An example that runs: ExamplePlugin in example_test.go.
package emptydir
