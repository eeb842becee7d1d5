package agent

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/selinux"
)

// With SELinux, plugins may use their folders, and volumes get labels if the policy defines them.
func TestLabels(t *testing.T) {
	var warnings bytes.Buffer
	f, log := folders{root: t.TempDir()}, slog.New(slog.NewTextHandler(&warnings, nil))
	require.Nil(t, selinuxLabels(log, f, false, os.DirFS(t.TempDir())), "a node without SELinux")
	require.NoDirExists(t, f.shared())

	require.Nil(t, selinuxLabels(log, f, true, os.DirFS(t.TempDir())), "a node without a policy for containers")
	require.Contains(t, warnings.String(), "volumes are mounted without an SELinux label")
	for _, dir := range []string{f.shared(), f.plugins()} {
		label := make([]byte, 100)
		n, err := unix.Lgetxattr(dir, "security.selinux", label)
		if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
			require.Contains(t, warnings.String(), dir, "a failure to label the folder is logged")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, selinux.PluginsLabel, string(label[:n]))
	}
	host := selinuxLabels(log, f, true, fstest.MapFS{
		"config":                         {Data: []byte("SELINUXTYPE=targeted")},
		"targeted/contexts/lxc_contexts": {Data: []byte(`file = "system_u:object_r:container_file_t:s0"`)},
	})
	label, err := host.FileLabel(&v1.SELinuxOptions{Level: "s0:c1"})
	require.NoError(t, err)
	require.Equal(t, "system_u:object_r:container_file_t:s0:c1", label)
}
