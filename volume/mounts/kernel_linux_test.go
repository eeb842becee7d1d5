package mounts_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/volume/mounts"
)

func TestPropagation(t *testing.T) {
	k := root(t)
	dir := folder(t, k)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	require.NoError(t, os.Mkdir(a, 0o700))
	require.NoError(t, os.Mkdir(b, 0o700))
	require.NoError(t, k.Mount(t.Context(), tmpfs(a)))
	require.NoError(t, k.Mount(t.Context(), mounts.Mount{Target: a, Options: []string{"rshared"}}))
	require.NoError(t, k.Mount(t.Context(), mounts.Mount{Source: a, Target: b, Options: []string{"bind", "rslave"}}))
	require.NoError(t, os.Mkdir(filepath.Join(a, "x"), 0o700))
	require.NoError(t, k.Mount(t.Context(), tmpfs(filepath.Join(a, "x"))))
	at(t, k, filepath.Join(b, "x"), true)
	err := k.Mount(t.Context(), mounts.Mount{Target: a, Options: []string{"size=1"}})
	require.ErrorContains(t, err, "needs a file system type")
}

func TestOverlayAndInvalidOptions(t *testing.T) {
	k := root(t)
	dir := folder(t, k)
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)
	merged := filepath.Join(dir, "merged")
	err := k.Mount(t.Context(), mounts.Mount{Source: "overlay", Target: merged, FSType: "overlay", Options: []string{options}})
	if err != nil {
		t.Log("no overlay here:", err) // for example if dir is on an overlay, which cannot be an upper folder
	} else {
		p := at(t, k, merged, true)
		require.Empty(t, p.FSType)
		points := below(t, k, merged)
		require.Equal(t, "overlay", points[0].FSType)
		require.Contains(t, points[0].Options, "upperdir="+dir)
	}
	err = k.Mount(t.Context(), tmpfs(dir, "nonsense"))
	require.ErrorContains(t, err, "nonsense")
	require.ErrorContains(t, err, "invalid argument")
}

// A mount in use can be detached but not unmounted.
func TestDetach(t *testing.T) {
	k := root(t)
	dir := folder(t, k)
	require.NoError(t, k.Mount(t.Context(), tmpfs(dir)))
	f, err := os.Create(filepath.Join(dir, "f"))
	require.NoError(t, err)
	defer f.Close()
	require.ErrorIs(t, k.Unmount(t.Context(), dir), unix.EBUSY)
	require.NoError(t, k.Detach(t.Context(), dir))
	require.NoError(t, k.Detach(t.Context(), dir), "a missing mount is no error")
	at(t, k, dir, false)
	_, err = f.WriteString("open files stay usable")
	require.NoError(t, err)
}

// The error of a helper contains its output, and a helper ends with its context.
func TestHelper(t *testing.T) {
	k := root(t)
	dir := folder(t, k)
	err := k.Mount(t.Context(), mounts.Mount{Source: "nowhere", Target: dir, FSType: "nosuchfs", Options: []string{"ro"}})
	require.ErrorContains(t, err, "nosuchfs")
	require.ErrorContains(t, err, "exit status")

	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "mount"), []byte("#!/bin/sh\nPATH=/bin:/usr/bin\nsleep 600 & wait\n"), 0o700))
	t.Setenv("PATH", bin)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, k.Mount(ctx, mounts.Mount{Source: "s:/x", Target: dir, FSType: "nfs"}))
	require.Less(t, time.Since(begun), 2*time.Minute)
	require.Eventually(t, func() bool { return len(k.Hanging()) == 0 }, time.Minute, 10*time.Millisecond)
}

// Issue 13, point 8: a table with 10,000 mounts is read fast.
func TestTable(t *testing.T) {
	var text strings.Builder
	text.WriteString("22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n")
	for i := range 10000 {
		fmt.Fprintf(&text, "%d 22 0:%d / /pods/%d/with\\040space rw,nosuid - tmpfs  ro,size=%dk\n", i+30, i, i, i)
	}
	file := filepath.Join(t.TempDir(), "mountinfo")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	begun := time.Now()
	points, err := mounts.Table(file)
	require.NoError(t, err)
	t.Log("read in", time.Since(begun))
	require.Len(t, points, 10001)
	require.Equal(t, mounts.Point{
		Path: "/pods/7/with space", FSType: "tmpfs", Options: "rw,nosuid,ro,size=7k", ReadOnly: true,
	}, points[8])

	for _, line := range []string{"short", "1 2 0:3 / - tmpfs x rw", "1 2 0:3 / /a rw shared:1 - tmpfs x", ""} {
		require.NoError(t, os.WriteFile(file, []byte(line+"\n"), 0o600))
		_, err = mounts.Table(file)
		require.ErrorContains(t, err, "mountinfo")
	}
	for line, want := range map[string]mounts.Point{
		`1 2 0:3 / /a\134\011b\012\043 rw shared:1 master:2 - fuse.x s\040s rw,user=0`: {
			Path: "/a\\\tb\n#", FSType: "fuse.x", Source: "s s", Options: "rw,rw,user=0", Shared: true,
		},
		`1 2 0:3 / /odd\9 rw - x - rw extra`:          {Path: `/odd\9`, FSType: "x", Source: "-", Options: "rw,rw"},
		`1 2 0:3 /ro /d\303\266//deleted ro - x y rw`: {Path: "/dö//deleted", FSType: "x", Source: "y", Options: "ro,rw", ReadOnly: true},
	} {
		require.NoError(t, os.WriteFile(file, []byte(line+"\n"), 0o600))
		points, err = mounts.Table(file)
		require.NoError(t, err)
		require.Equal(t, []mounts.Point{want}, points)
	}
	_, err = mounts.Table(file + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}
