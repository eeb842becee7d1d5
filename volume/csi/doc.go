// Package csi gives pods volumes of CSI drivers: those that a pod describes itself
// (inline, with a driver that lists the mode Ephemeral) and PersistentVolumes.
//
// The plugin speaks to drivers by the small interface Driver; how a driver is reached, as
// by gRPC over its socket, is the business of who implements it. A driver that is not
// there, or does not answer, fails the volumes that need it and nothing else.
//
// What is known about a volume is on the disk before its driver is asked for anything, and
// until the driver has taken it away, so that an agent which knows neither the pod nor the
// PersistentVolume can do that:
//
//	pods/UID/volumes/kubernetes.io~csi/NAME/vol_data.json            NAME: the PersistentVolume's, or that in the pod
//	pods/UID/volumes/kubernetes.io~csi/NAME/mount                    made and mounted by the driver
//	plugins/kubernetes.io/csi/DRIVER/SHA256(HANDLE)/vol_data.json    a volume that pods share
//	plugins/kubernetes.io/csi/DRIVER/SHA256(HANDLE)/globalmount      what the driver has staged
//
// and for one that is a device:
//
//	plugins/kubernetes.io/csi/volumeDevices/NAME/data/vol_data.json
//	plugins/kubernetes.io/csi/volumeDevices/NAME/dev/UID             a link to what is published
//	plugins/kubernetes.io/csi/volumeDevices/staging/NAME             what the driver has staged
//	plugins/kubernetes.io/csi/volumeDevices/publish/NAME/UID         the device, made by the driver
//	pods/UID/volumeDevices/kubernetes.io~csi/NAME                    a link to what is published
//
// A volume that could not be mounted is tried again when an object that it names comes
// (volume.Dependent), and when manager.Manager.Retry says that a driver has come. One that
// is mounted is published again only for drivers with requiresRepublish.
//
// On a node with SELinux a volume of one pod at a time is mounted with the pod's label if
// the driver's object says seLinuxMount; of others the runtime labels the files.
//
// Nothing below a path that was given to a driver is ever deleted: what a driver says it
// has taken away and has not is an error that names it.
//
// An example that runs: ExampleNew.
package csi
