package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/volume/mounts"
)

// shareRoot makes the root folder shared, so that mounts below it can propagate between the host
// and containers that request it (mountPropagation), such as CSI drivers. The runtime otherwise
// refuses such containers. A host with systemd shares all mounts and needs no change. On other
// hosts the root folder becomes a mount of its own, which stays.
func (m machine) shareRoot(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	switch {
	case cfg.Kubelet.ContainerRuntimeEndpoint == config.Embedded:
		return nil
	case m.user != 0:
		log.Warn("root folder not made a shared mount: the kubelet does not run as root", "user", m.user)
		return nil
	}
	root, err := makeRoot(cfg.Flags.RootDir)
	if err != nil {
		return fmt.Errorf("root folder: %w", err)
	}
	table, err := mounts.Table("/proc/thread-self/mountinfo")
	if err != nil {
		return fmt.Errorf("root folder: %w", err)
	}
	if holder(table, root).Shared {
		return nil
	}
	if err := new(mounts.Kernel).Mount(ctx, mounts.Mount{Source: root, Target: root, Options: []string{"rbind", "rshared"}}); err != nil {
		return fmt.Errorf("root folder: making it a shared mount: %w", err)
	}
	log.Info("root folder made a shared mount", "root", root)
	return nil
}

// makeRoot creates the root folder and returns its path without symbolic links.
func makeRoot(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// holder returns the mount that contains a path: the one with the longest path, and of several the
// last, which covers the others.
func holder(table []mounts.Point, path string) (out mounts.Point) {
	for _, p := range table {
		if strings.HasPrefix(path+"/", strings.TrimSuffix(p.Path, "/")+"/") && len(p.Path) >= len(out.Path) {
			out = p
		}
	}
	return out
}
