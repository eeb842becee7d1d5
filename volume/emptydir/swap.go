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

// ReasonOnDisk is the reason of the event on a node whose volumes in memory may end up
// on a disk: see MayBeOnDisk.
const ReasonOnDisk = "PossibleMemoryBackedVolumesOnDisk"

// MayBeOnDisk tells whether the content of volumes in memory can be swapped to a disk on
// this node: swap is on, and the kernel (before Linux 6.4, or in a user namespace) does
// not let a file system stay out of it, which is tried at a folder that is made in dir.
func MayBeOnDisk(ctx context.Context, m mounts.Mounter, dir string) (bool, error) {
	swaps, err := os.ReadFile("/proc/swaps")
	if errors.Is(err, fs.ErrNotExist) || err == nil && !swapIsOn(string(swaps)) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("emptydir: %w", err)
	}
	return cannotStayOut(ctx, m, dir)
}

// swapIsOn reads /proc/swaps: a line of titles, and one for each swap.
func swapIsOn(swaps string) bool { return strings.Count(strings.TrimSpace(swaps), "\n") > 0 }

func cannotStayOut(ctx context.Context, m mounts.Mounter, dir string) (bool, error) {
	probe, err := os.MkdirTemp(dir, "noswap-")
	if err != nil {
		return false, fmt.Errorf("emptydir: %w", err)
	}
	refused := m.Mount(ctx, mounts.Mount{Source: "tmpfs", Target: probe, FSType: "tmpfs", Options: []string{"noswap", "size=4096"}})
	if refused == nil {
		err = m.Unmount(ctx, probe)
	}
	if err := errors.Join(err, ctx.Err()); err != nil {
		return false, fmt.Errorf("emptydir: %w", err)
	}
	if err := os.Remove(probe); err != nil {
		return false, fmt.Errorf("emptydir: %w", err)
	}
	return refused != nil, nil
}
