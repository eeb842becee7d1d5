// Vm boots a guest that has what this machine may lack: systemd as PID 1, logind, cgroup
// v2, AppArmor, NFS client and server, containerd, on a real Debian 12 in qemu, without KVM.
//
//	go run ./examples/tools/testbed/vm test ./volume/nfs        # tests of packages, in the guest
//	go run ./examples/tools/testbed/vm run FOLDER 'uname -a'    # a command, with FOLDER at /mnt
//	go run ./examples/tools/testbed/vm build                    # only makes the image, if it is not there
//
// The image is made once, in two minutes, and kept in the user's cache folder; what a
// guest changes on its disk is gone with it. To boot and to power off take half a minute.
// Everything inside is 10 to 20 times slower than outside: for behaviour, never for figures.
//
// A test that wants the guest is called TestGuest..., and skips itself unless
// PODWRIGHT_GUEST is set, as it is there. Its binary is built without cgo and runs as
// root, in a folder with the package's testdata beside it.
package main
