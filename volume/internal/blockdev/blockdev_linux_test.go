package blockdev_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/volume/internal/blockdev"
	"github.com/podwright/podwright/volume/mounts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// FormatAndMount does not write to a device whose content it cannot determine.
func TestFormatFailsIfContentIsUnknown(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	}
	formatted := filepath.Join(bin, "formatted")
	write("mkfs.ext4", ": > "+formatted)
	write("blkid", "exit 4")
	m := &mounts.Memory{}
	dir := filepath.Join(t.TempDir(), "v")
	require.Error(t, blockdev.FormatAndMount(t.Context(), m, "/dev/x", dir, "", nil))
	require.NoFileExists(t, formatted)
	write("blkid", "echo TYPE=xfs")
	write("fsck", "exit 4")
	require.Error(t, blockdev.FormatAndMount(t.Context(), m, "/dev/x", dir, "ext4", nil), "fsck reported errors that it did not repair")
	require.NoFileExists(t, formatted)
	write("blkid", "exit 2")
	require.Error(t, blockdev.FormatAndMount(t.Context(), m, "/dev/x", dir, "ext4", []string{"ro"}), "a read-only device is not formatted")
	require.NoFileExists(t, formatted)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, blockdev.FormatAndMount(ended, m, "/dev/x", dir, "ext4", nil), context.Canceled)

	require.NoError(t, blockdev.FormatAndMount(t.Context(), m, "/dev/x", dir, "", []string{"noatime"}))
	require.FileExists(t, formatted)
	points, err := m.Below(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, []mounts.Point{{Path: dir, Source: "/dev/x", FSType: "ext4", Options: "noatime,defaults"}}, points)
	require.NoError(t, os.Remove(formatted))
	require.NoError(t, blockdev.FormatAndMount(t.Context(), m, "/dev/x", dir, "", nil), "a repeated mount succeeds")
	require.NoFileExists(t, formatted)

	require.NoError(t, blockdev.Unmount(t.Context(), m, dir))
	require.NoError(t, blockdev.Unmount(t.Context(), m, dir))
	require.NoDirExists(t, dir)
}

// The end of the context ends fsck with the program that it starts.
func TestChildrenOfProgramsEnd(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for name, text := range map[string]string{"blkid": "echo TYPE=ext4", "fsck": "sleep 600 & echo $! >$0.child; wait"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() {
		ended <- blockdev.FormatAndMount(ctx, &mounts.Memory{}, "/dev/x", filepath.Join(bin, "v"), "ext4", nil)
	}()
	var child string
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(filepath.Join(bin, "fsck.child"))
		child = strings.TrimSpace(string(text))
		return child != ""
	}, 20*time.Second, time.Millisecond)
	cancel()
	require.Error(t, <-ended)
	require.Eventually(t, func() bool {
		state, _ := os.ReadFile("/proc/" + child + "/stat")
		return len(state) == 0 || strings.Contains(string(state), ") Z ")
	}, 10*time.Second, 10*time.Millisecond, "the child of fsck runs")
}

func TestUnmountFails(t *testing.T) {
	errInjected := errors.New("odd")
	for _, failing := range []string{"At", "Unmount"} {
		m, dir := &mounts.Memory{}, t.TempDir()
		require.NoError(t, m.Mount(t.Context(), mounts.Mount{Source: "tmpfs", Target: dir, FSType: "tmpfs"}))
		m.Fault = func(_ context.Context, call, _ string) error {
			if call == failing {
				return errInjected
			}
			return nil
		}
		require.ErrorIs(t, blockdev.Unmount(t.Context(), m, dir), errInjected)
		require.DirExists(t, dir)
	}
}

// Link does not follow an existing link, and Unlink removes symbolic links only.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "l")
	require.NoError(t, blockdev.Link("/dev/null", link))
	require.NoError(t, os.Symlink("left by a crash", filepath.Join(dir, ".l.new")))
	require.NoError(t, blockdev.Link("/dev/zero", link))
	target, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, "/dev/zero", target)
	require.NoError(t, blockdev.Unlink(link))
	require.NoError(t, blockdev.Unlink(link))
	require.NoError(t, os.WriteFile(link, nil, 0o600))
	require.ErrorContains(t, blockdev.Unlink(link), "not a symbolic link")
	require.FileExists(t, link)
}
