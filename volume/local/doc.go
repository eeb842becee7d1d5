// Package local gives pods PersistentVolumes that are folders or block devices of the
// node.
//
// A folder is mounted for each pod. A block device is staged: it gets a file system if
// it has none and is mounted once, and that is mounted for each pod; or, for a volume
// that is a device, it is held by a loop device so that nothing takes it away, and each
// pod gets a link to it.
//
//	plugins/kubernetes.io/local-volume/mounts/PV                  the mounted device; empty for a folder
//	plugins/kubernetes.io/local-volume/volumeDevices/PV/device    a link to the held device
//
// An example that runs: ExamplePlugin in example_linux_test.go.
package local
