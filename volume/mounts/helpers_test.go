package mounts_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/volume/mounts"
)

// root skips a test that needs real mounts where there can be none, unless the machine
// is one of which they are demanded.
func root(t testing.TB) *mounts.Kernel {
	t.Helper()
	k, dir := &mounts.Kernel{}, t.TempDir()
	err := k.Mount(t.Context(), mounts.Mount{Source: "tmpfs", Target: dir, FSType: "tmpfs", Options: []string{"size=64k"}})
	if err != nil {
		if os.Getenv("PODWRIGHT_REQUIRE_CRI") == "1" {
			t.Fatal(err)
		}
		t.Skip("cannot mount:", err)
	}
	cleanup(t, k, dir)
	return k
}

// cleanup unmounts what is at and below a folder when the test ends.
func cleanup(t testing.TB, m mounts.Mounter, dir string) {
	t.Cleanup(func() {
		points, _ := m.Below(context.Background(), dir)
		for i := range points {
			_ = m.Detach(context.Background(), points[len(points)-1-i].Path)
		}
	})
}

// folder is a folder without symbolic links in its path.
func folder(t testing.TB, m mounts.Mounter) string {
	dir := t.TempDir()
	cleanup(t, m, dir)
	return dir
}

// at returns the mount at a path, where there is one or none.
func at(t testing.TB, m mounts.Mounter, path string, want bool, msg ...any) mounts.Point {
	t.Helper()
	p, mounted, err := m.At(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, want, mounted, msg...)
	return p
}

// below returns the mounts at and below a path.
func below(t testing.TB, m mounts.Mounter, path string) []mounts.Point {
	t.Helper()
	points, err := m.Below(t.Context(), path)
	require.NoError(t, err)
	return points
}
