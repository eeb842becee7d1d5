package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// image is a folder with the files that a guest boots from.
type image struct{ dir string }

func (i image) kernel() string { return filepath.Join(i.dir, "vmlinuz") }
func (i image) initrd() string { return filepath.Join(i.dir, "initrd") }
func (i image) disk() string   { return filepath.Join(i.dir, "disk.img") }

// packages are the guest's packages, besides a minimal Debian.
var packages = []string{
	"linux-image-amd64", "initramfs-tools", "systemd-sysv", "dbus", "udev", "kmod", "procps", "iproute2", "iptables", "conntrack",
	"apparmor", "nfs-common", "nfs-kernel-server", "containerd", "runc", "containernetworking-plugins", "ca-certificates", "e2fsprogs",
}

// job is the unit that runs the guest's command and powers off. Its output goes to the second
// serial line, the standard output of qemu.
const job = `[Unit]
After=containerd.service systemd-logind.service
[Service]
Type=oneshot
TimeoutStartSec=infinity
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS1
ExecStart=/bin/sh -c 'modprobe 9pnet_virtio; for i in 1 2 3 4 5 6 7 8 9; do mount -t 9p -o trans=virtio,version=9p2000.L share /mnt && break; sleep 1; done; cd /mnt; sh /mnt/.job; echo $? >/mnt/.code; sync'
ExecStopPost=/bin/systemctl poweroff --no-block
[Install]
WantedBy=multi-user.target
`

const diskSize = "4G"

// recipe returns the name of the image. It changes with the image's content.
func recipe() string {
	all := strings.Join(append(slices.Clone(packages), job, diskSize, "bookworm 1"), "\n")
	return fmt.Sprintf("guest-%x", sha256.Sum256([]byte(all)))[:22]
}

// ensureImage returns the image and makes it if it is missing. An image gets its name when it is
// complete. ensureImage removes images of other recipes.
func ensureImage(ctx context.Context, log io.Writer) (image, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = "/var/cache"
	}
	base = filepath.Join(base, "podwright-testbed")
	img := image{dir: filepath.Join(base, recipe())}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return img, err
	}
	lock, err := os.OpenFile(filepath.Join(base, "guest.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return img, err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return img, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if err := ensureTools(ctx, log); err != nil {
		return img, err
	}
	if _, err := os.Stat(img.disk()); err == nil {
		return img, nil
	}
	old, err := filepath.Glob(filepath.Join(base, "guest-*"))
	for _, dir := range old {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return img, err
	}
	unfinished := image{dir: img.dir + ".unfinished"}
	if err := unfinished.build(ctx, log); err != nil {
		return img, err
	}
	return img, os.Rename(unfinished.dir, img.dir)
}

// tools maps the programs that this machine needs to their packages.
var tools = map[string]string{"qemu-system-x86_64": "qemu-system-x86", "debootstrap": "debootstrap", "mke2fs": "e2fsprogs"}

func ensureTools(ctx context.Context, log io.Writer) error {
	args := []string{"install", "-y", "-q", "--no-install-recommends"}
	few := len(args)
	for program, pkg := range tools {
		if _, err := exec.LookPath(program); err != nil {
			args = append(args, pkg)
		}
	}
	if len(args) == few {
		return nil
	}
	slices.Sort(args[few:])
	fmt.Fprintf(log, "vm: installing %s ...\n", strings.Join(args[few:], " "))
	return errors.Join(quiet(ctx, "apt-get", "update", "-q"), quiet(ctx, "apt-get", args...))
}

func (i image) build(ctx context.Context, log io.Writer) error {
	begin := time.Now()
	fmt.Fprintf(log, "vm: building the guest in %s ...\n", i.dir)
	root := filepath.Join(i.dir, "root")
	if err := os.MkdirAll(i.dir, 0o700); err != nil {
		return err
	}
	if err := quiet(ctx, "debootstrap", "--variant=minbase", "--include="+strings.Join(packages, ","), "bookworm", root); err != nil {
		return err
	}
	if err := errors.Join(i.boot(root), configure(root)); err != nil {
		return err
	}
	if err := quiet(ctx, "mke2fs", "-q", "-t", "ext4", "-d", root, i.disk()+".part", diskSize); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(root), os.Rename(i.disk()+".part", i.disk())); err != nil {
		return err
	}
	fmt.Fprintf(log, "vm: built the guest (%v)\n", time.Since(begin).Round(time.Second))
	return nil
}

// boot moves kernel and initrd out of the guest's folder, because qemu loads them.
func (i image) boot(root string) error {
	for from, to := range map[string]string{"vmlinuz-*": i.kernel(), "initrd.img-*": i.initrd()} {
		found, err := filepath.Glob(filepath.Join(root, "boot", from))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("the guest must have exactly one /boot/%s, found %v", from, found)
		}
		if err := os.Rename(found[0], to); err != nil {
			return err
		}
	}
	return nil
}

func configure(root string) error {
	units := filepath.Join(root, "etc/systemd/system")
	wants := filepath.Join(units, "multi-user.target.wants")
	return errors.Join(
		os.WriteFile(filepath.Join(root, "etc/hostname"), []byte("guest\n"), 0o644),
		os.MkdirAll(wants, 0o755),
		os.WriteFile(filepath.Join(units, "job.service"), []byte(job), 0o644),
		os.Symlink("../job.service", filepath.Join(wants, "job.service")),
		os.MkdirAll(filepath.Join(root, "opt/cni"), 0o755),
		os.Symlink("/usr/lib/cni", filepath.Join(root, "opt/cni/bin")),
	)
}

// quiet runs a program. The error includes the end of its output.
func quiet(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		const last = 2000
		return fmt.Errorf("%s %s: %w\n%s", name, args[0], err, out[max(0, len(out)-last):])
	}
	return nil
}
