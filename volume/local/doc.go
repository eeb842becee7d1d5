// Package local mounts PersistentVolumes that are folders or block devices of the node.
//
// A folder is mounted for each pod. A block device with the volume mode Filesystem is staged:
// it is formatted if it has no file system, mounted once, and that mount is mounted for each
// pod. A device with the volume mode Block is held by a loop device, so that it cannot be
// detached, and each pod has a link to it.
//
//	plugins/kubernetes.io/local-volume/mounts/PV                  mount of the device; empty for a folder
//	plugins/kubernetes.io/local-volume/volumeDevices/PV/device    link to the held device
//
// An example that runs: ExamplePlugin in example_linux_test.go.
package local
