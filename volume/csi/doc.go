// Package csi mounts volumes of CSI drivers: PersistentVolumes, and inline volumes of drivers
// that list the mode Ephemeral.
//
//	plugin, err := csi.New(csi.Config{Layout: layout, NodeName: "node-1", Drivers: drivers})
//	plugins := []volume.Plugin{plugin} // manager.Config.Plugins; Config.Complete is required
//
// The plugin calls drivers through the interface Driver. The caller implements the transport;
// examples/kubelet/csi has gRPC over the driver's socket. A missing or unresponsive driver fails
// only the volumes of that driver.
//
// The plugin writes vol_data.json before the first call of a driver and removes it after the
// last. An agent that has neither the pod nor the PersistentVolume can therefore remove the
// volume:
//
//	pods/UID/volumes/kubernetes.io~csi/NAME/vol_data.json            NAME: Spec.Name
//	pods/UID/volumes/kubernetes.io~csi/NAME/mount                    created and mounted by the driver
//	plugins/kubernetes.io/csi/DRIVER/SHA256(HANDLE)/vol_data.json    a volume that pods share
//	plugins/kubernetes.io/csi/DRIVER/SHA256(HANDLE)/globalmount      staged by the driver
//
// Devices have these paths:
//
//	plugins/kubernetes.io/csi/volumeDevices/NAME/data/vol_data.json
//	plugins/kubernetes.io/csi/volumeDevices/NAME/dev/UID             link to the published device
//	plugins/kubernetes.io/csi/volumeDevices/staging/NAME             staged by the driver
//	plugins/kubernetes.io/csi/volumeDevices/publish/NAME/UID         the device, created by the driver
//	pods/UID/volumeDevices/kubernetes.io~csi/NAME                    link to the published device
//
// A failed mount is retried when one of the volume's objects appears (volume.Dependent), and
// when manager.Manager.Retry reports a new driver. A mounted volume is published again only for
// drivers with requiresRepublish.
//
// On a node with SELinux, a volume for one pod at a time is mounted with the pod's label if the
// CSIDriver object sets seLinuxMount. In other volumes the runtime labels the files.
//
// The plugin deletes no content of a path that it gave to a driver. If a driver reports a
// removal but the path still has content, the call fails with an error that contains the path.
//
// An example that runs: ExampleNew.
package csi
