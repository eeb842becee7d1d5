// Package selinux provides the SELinux labels of containers' files on a node, for
// manager.Config.SELinux.
//
//	if selinux.Enabled(selinux.Mounted) {
//		host, err := selinux.Read(os.DirFS("/etc/selinux"))
//	}
//
// A file label has the user and level that the container requests. Role and type come from the
// node's policy for files of containers.
package selinux

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume/manager"
)

// Mounted is the mount point of the SELinux filesystem.
const Mounted = "/sys/fs/selinux"

// PluginsLabel is the label of the folders for the sockets of kubelet plugins, which run in
// containers.
const PluginsLabel = "system_u:object_r:container_file_t:s0"

// Enabled reports whether the kernel has SELinux: its filesystem is mounted at mounted and
// writable.
func Enabled(mounted string) bool {
	var is unix.Statfs_t
	err := unix.Statfs(mounted, &is)
	return err == nil && is.Type == unix.SELINUX_MAGIC && is.Flags&unix.ST_RDONLY == 0
}

// Host returns file labels according to the node's policy. Use Read.
type Host struct{ user, rest string }

var _ manager.SELinux = (*Host)(nil)

// Read reads a node's policy. etc is /etc/selinux.
func Read(etc fs.FS) (*Host, error) {
	policy, err := setting(etc, "config", "SELINUXTYPE")
	if err != nil {
		return nil, err
	}
	file := path.Join(policy, "contexts/lxc_contexts")
	label, err := setting(etc, file, "file")
	if err != nil {
		return nil, err
	}
	parts := strings.SplitN(label, ":", 4) // the level has colons of its own
	if len(parts) < 3 {
		return nil, fmt.Errorf("selinux: %s: file: %q is not a label", file, label)
	}
	return &Host{user: parts[0], rest: parts[1] + ":" + parts[2]}, nil
}

// setting returns the value of a "name = value" line of a file.
func setting(etc fs.FS, file, name string) (string, error) {
	text, err := fs.ReadFile(etc, file)
	if err != nil {
		return "", fmt.Errorf("selinux: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		key, value, found := strings.Cut(lines.Text(), "=")
		if value = strings.Trim(value, " \t\""); found && strings.TrimSpace(key) == name && value != "" {
			return value, nil
		}
	}
	return "", fmt.Errorf("selinux: %s: %s is missing", file, name)
}

// part matches a part of a label. It allows no character that ends a mount option.
var part = regexp.MustCompile(`^[A-Za-z0-9_.:,-]*$`)

// FileLabel implements manager.SELinux. It returns "" for options without a level, for which the
// runtime chooses one.
func (h *Host) FileLabel(o *v1.SELinuxOptions) (string, error) {
	if o == nil || o.Level == "" {
		return "", nil
	}
	for field, value := range map[string]string{"level": o.Level, "user": o.User} {
		if !part.MatchString(value) {
			return "", fmt.Errorf("seLinuxOptions.%s: %q has characters that are not allowed in a label", field, value)
		}
	}
	user := h.user
	if o.User != "" {
		user = o.User
	}
	return user + ":" + h.rest + ":" + o.Level, nil
}

// Label sets the label of a file or folder. It does not follow links.
func Label(file, label string) error {
	if err := unix.Lsetxattr(file, "security.selinux", []byte(label), 0); err != nil {
		return &fs.PathError{Op: "label", Path: file, Err: err}
	}
	return nil
}
