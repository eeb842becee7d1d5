// Vm boots a guest with features that this machine may lack: systemd as PID 1, logind, cgroup v2,
// AppArmor, NFS client and server, and containerd. The guest is a Debian 12 in qemu, without KVM.
//
//	go run ./examples/tools/testbed/vm test ./volume/nfs        # tests of packages, in the guest
//	go run ./examples/tools/testbed/vm run FOLDER 'uname -a'    # a command, with FOLDER at /mnt
//	go run ./examples/tools/testbed/vm build                    # makes the image, if it is missing
//
// The image is made once, in two minutes, and kept in the user's cache folder. A guest does not
// save changes of its disk. Boot and power-off take half a minute together. The guest is 10 to 20
// times slower than the host, so it is unsuitable for measurements.
//
// A test for the guest is named TestGuest... and skips unless PODWRIGHT_GUEST is set, as in the
// guest. Its binary is built without cgo. It runs as root, in a folder with the package's
// testdata.
package main
