package selinux

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func etc(config, contexts string) fs.FS {
	return fstest.MapFS{"config": {Data: []byte(config)}, "targeted/contexts/lxc_contexts": {Data: []byte(contexts)}}
}

const (
	config   = "# SELINUXTYPE= can take one of these values:\nSELINUX=enforcing\nSELINUXTYPE=targeted\n"
	contexts = "process = \"system_u:system_r:container_t:s0\"\ncontent = \"x\"\nfile = \"system_u:object_r:container_file_t:s0\"\nro_file=\"y\"\n"
)

func TestFileLabel(t *testing.T) {
	host, err := Read(etc(config, contexts))
	require.NoError(t, err)
	for _, c := range []struct {
		options *v1.SELinuxOptions
		want    string
		err     string
	}{
		{nil, "", ""},
		{&v1.SELinuxOptions{}, "", ""},
		{&v1.SELinuxOptions{User: "u", Role: "r", Type: "t"}, "", ""},
		{&v1.SELinuxOptions{Level: "s0:c1,c2"}, "system_u:object_r:container_file_t:s0:c1,c2", ""},
		{&v1.SELinuxOptions{Level: "s0-s0:c0.c1023", Type: "spc_t", Role: "r"}, "system_u:object_r:container_file_t:s0-s0:c0.c1023", ""},
		{&v1.SELinuxOptions{Level: "s0", User: "me_u"}, "me_u:object_r:container_file_t:s0", ""},
		{&v1.SELinuxOptions{Level: `s0",suid,context="s1`}, "", "seLinuxOptions.level"},
		{&v1.SELinuxOptions{Level: "s0", User: "a\nb"}, "", "seLinuxOptions.user"},
	} {
		got, err := host.FileLabel(c.options)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, c.want, got)
	}
}

func TestPoliciesThatCannotBeRead(t *testing.T) {
	for want, files := range map[string]fs.FS{
		"config":                   fstest.MapFS{},
		"SELINUXTYPE is missing":   etc("SELINUX=permissive\n", contexts),
		"mls/contexts/lxc_context": etc("SELINUXTYPE=mls\n", contexts),
		"file is missing":          etc(config, "file=\n"),
		`"a:b" is not a label`:     etc(config, "file = a:b"),
	} {
		_, err := Read(files)
		require.ErrorContains(t, err, want)
	}
}

// The kernel stores a label even without SELinux.
func TestLabel(t *testing.T) {
	dir := t.TempDir()
	require.False(t, Enabled(dir))
	require.False(t, Enabled(filepath.Join(dir, "missing")))
	require.ErrorIs(t, Label(filepath.Join(dir, "missing"), PluginsLabel), os.ErrNotExist)
	err := Label(dir, PluginsLabel)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) {
		t.Skip(err)
	}
	require.NoError(t, err)
	value := make([]byte, 100)
	n, err := unix.Lgetxattr(dir, "security.selinux", value)
	require.NoError(t, err)
	require.Equal(t, PluginsLabel, string(value[:n]))
}
