package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// chooseSnapshotter returns "native" if dir is on an overlay, because the kernel refuses an
// overlay on an overlay, and "overlayfs" otherwise.
func chooseSnapshotter(dir string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", fmt.Errorf("statfs %s: %w", dir, err)
	}
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native", nil
	}
	return "overlayfs", nil
}

// lacksSysResource reports whether this process may not lower an oom_score_adj.
func lacksSysResource() (bool, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, err
	}
	caps, err := effectiveCaps(string(status))
	return caps&(1<<unix.CAP_SYS_RESOURCE) == 0, err
}

func effectiveCaps(status string) (uint64, error) {
	for line := range strings.Lines(status) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			return strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		}
	}
	return 0, fmt.Errorf("no CapEff in process status")
}
