package emptydir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/podwright/podwright/volume/mounts"
)

// ReasonOnDisk is the reason of the event for a node that may swap volumes in memory to a disk:
// see MayBeOnDisk.
const ReasonOnDisk = "PossibleMemoryBackedVolumesOnDisk"

// MayBeOnDisk reports whether this node can swap the content of volumes in memory to a disk:
// swap is on, and the kernel rejects the mount option noswap (before Linux 6.4, or in a user
// namespace). It tests this with a mount on a temporary folder in dir.
func MayBeOnDisk(ctx context.Context, m mounts.Mounter, dir string) (bool, error) {
	swaps, err := os.ReadFile("/proc/swaps")
	if errors.Is(err, fs.ErrNotExist) || err == nil && !swapIsOn(string(swaps)) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("emptydir: %w", err)
	}
	return rejectsNoswap(ctx, m, dir)
}

// swapIsOn reports whether the text of /proc/swaps lists a swap. The first line has titles.
func swapIsOn(swaps string) bool { return strings.Count(strings.TrimSpace(swaps), "\n") > 0 }

func rejectsNoswap(ctx context.Context, m mounts.Mounter, dir string) (bool, error) {
	probe, err := os.MkdirTemp(dir, "noswap-")
	if err != nil {
		return false, fmt.Errorf("emptydir: %w", err)
	}
	mountErr := m.Mount(ctx, mounts.Mount{Source: "tmpfs", Target: probe, FSType: "tmpfs", Options: []string{"noswap", "size=4096"}})
	if mountErr == nil {
		err = m.Unmount(ctx, probe)
	}
	if err := errors.Join(err, ctx.Err()); err != nil {
		return false, fmt.Errorf("emptydir: %w", err)
	}
	if err := os.Remove(probe); err != nil {
		return false, fmt.Errorf("emptydir: %w", err)
	}
	return mountErr != nil, nil
}
