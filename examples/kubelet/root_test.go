package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/volume/mounts"
)

// The root folder becomes shared once, also through a symbolic link, and mounts below it stay.
func TestShareRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes root")
	}
	dir := t.TempDir()
	private := filepath.Join(dir, "private") // private, whatever the mount of the test's folder
	require.NoError(t, os.Mkdir(private, 0o700))
	require.NoError(t, unix.Mount("test", private, "tmpfs", 0, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(private, unix.MNT_DETACH)) })
	require.NoError(t, unix.Mount("", private, "", unix.MS_PRIVATE, ""))
	root, link := filepath.Join(private, "a", "root"), filepath.Join(dir, "link")
	below := filepath.Join(root, "pods")
	require.NoError(t, os.MkdirAll(below, 0o700))
	require.NoError(t, unix.Mount("volume", below, "tmpfs", 0, ""))
	require.NoError(t, os.Symlink(root, link))

	var buf bytes.Buffer
	log, m := slog.New(slog.NewTextHandler(&buf, nil)), thisMachine()
	cfg := config.Default()
	cfg.Flags.RootDir = link
	for range 2 {
		require.NoError(t, m.shareRoot(t.Context(), &cfg, log))
	}
	points, err := mounts.TableBelow(root)
	require.NoError(t, err)
	require.Len(t, points, 3, "the volume, the root folder on itself, and the volume in it")
	for _, p := range points[1:] {
		require.True(t, p.Shared, p.Path)
	}
	require.Equal(t, "volume", points[2].Source)
	require.Contains(t, buf.String(), "root folder made a shared mount")
}

// The root folder is left alone with the embedded runtime and without root's rights. An impossible
// path is an error that names it.
func TestRootFolderIsNotShared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	cfg := config.Default()
	cfg.Flags.RootDir = filepath.Join(file, "root")
	require.ErrorContains(t, machine{}.shareRoot(t.Context(), &cfg, slog.New(slog.DiscardHandler)), "root folder: mkdir "+file)
	var buf bytes.Buffer
	require.NoError(t, machine{user: 7}.shareRoot(t.Context(), &cfg, slog.New(slog.NewTextHandler(&buf, nil))))
	require.Contains(t, buf.String(), "does not run as root")
	cfg.Kubelet.ContainerRuntimeEndpoint = config.Embedded
	require.NoError(t, machine{}.shareRoot(t.Context(), &cfg, nil))
}

func TestHolderOfAPath(t *testing.T) {
	table := []mounts.Point{{Path: "/"}, {Path: "/var"}, {Path: "/var/lib/kube"}, {Path: "/var", Shared: true}}
	for path, want := range map[string]mounts.Point{"/": table[0], "/etc": table[0], "/var": table[3], "/var/lib/kubelet": table[3], "/var/lib/kube/x": table[2]} {
		require.Equal(t, want, holder(table, path), path)
	}
}
