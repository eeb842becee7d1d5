// Package nfs mounts volumes of NFS servers.
//
// An unreachable server blocks no method longer than its context: the package does not access a
// file system after its mount. If an unmount fails for a minute, the mount is detached, and
// calls that wait for the server fail.
//
// An example that runs: ExamplePlugin in nfs_test.go.
package nfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/mounts"
)

// name is the plugin's name.
const name = "kubernetes.io/nfs"

// Config configures a Plugin. The zero value is valid.
type Config struct {
	// Mounts mounts volumes. Default: a mounts.Kernel, which needs mount.nfs on the node.
	Mounts mounts.Mounter
}

// Plugin implements volume.Plugin for NFS volumes, inline or as a PersistentVolume. Create it
// with New. It is safe for concurrent use.
type Plugin struct {
	cfg          Config
	forceAfter   time.Duration
	mu           sync.Mutex
	firstAttempt map[string]time.Time // time of the first attempt to unmount a folder
}

var _ volume.Plugin = (*Plugin)(nil)

// forceAfter is the time after which an unmount is forced. Data not yet sent to the server is
// then lost.
const forceAfter = time.Minute

// New returns a Plugin.
func New(cfg Config) *Plugin {
	fields.Default[mounts.Mounter](&cfg.Mounts, &mounts.Kernel{})
	return &Plugin{cfg: cfg, forceAfter: forceAfter, firstAttempt: map[string]time.Time{}}
}

// Name implements volume.Plugin.
func (p *Plugin) Name() string { return name }

// Supports implements volume.Plugin.
func (p *Plugin) Supports(spec *volume.Spec) bool { return sourceOf(spec) != nil }

func sourceOf(spec *volume.Spec) *v1.NFSVolumeSource {
	if spec.Persistent != nil {
		return spec.Persistent.Spec.NFS
	}
	return spec.Inline.NFS
}

// Mount implements volume.Plugin. It ignores fsGroup: the server controls ownership.
func (p *Plugin) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	source := sourceOf(m.Spec)
	device, err := deviceOf(source)
	if err != nil {
		return volume.Mounted{}, fmt.Errorf("nfs: %w", err)
	}
	out := volume.Mounted{Path: m.Dir, ReadOnly: source.ReadOnly || m.Spec.ReadOnly}
	mounted, err := p.mounted(ctx, m.Dir)
	if err != nil || mounted {
		return out, volume.Transient(err)
	}
	if err := os.Mkdir(m.Dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return volume.Mounted{}, fmt.Errorf("nfs: %w", err)
	}
	options := slices.Clone(m.Spec.MountOptions())
	if out.ReadOnly {
		options = append(options, "ro")
	}
	err = p.cfg.Mounts.Mount(ctx, mounts.Mount{Source: device, Target: m.Dir, FSType: "nfs", Options: options})
	if err != nil {
		return volume.Mounted{}, volume.Uncertain(fmt.Errorf("nfs: %w", err))
	}
	return out, nil
}

// deviceOf returns the source for mount.nfs: "server:/path", "[2001:db8::1]:/path".
func deviceOf(source *v1.NFSVolumeSource) (string, error) {
	server := source.Server
	switch {
	case server == "", strings.HasPrefix(server, "-"), strings.ContainsAny(server, "/ \t\n\x00"):
		return "", fmt.Errorf("server: %q is not a valid server name", server)
	case !path.IsAbs(source.Path), strings.Contains(source.Path, "\x00"):
		return "", fmt.Errorf("path: %q is not absolute", source.Path)
	}
	if ip, err := netip.ParseAddr(server); err == nil && ip.Is6() {
		server = "[" + server + "]"
	}
	return server + ":" + source.Path, nil
}

// mounted reports whether a folder is a mount point, without access to the server.
func (p *Plugin) mounted(ctx context.Context, dir string) (bool, error) {
	points, err := p.cfg.Mounts.Below(ctx, dir)
	return slices.ContainsFunc(points, func(m mounts.Point) bool { return m.Path == dir }), err
}

// Unmount implements volume.Plugin.
func (p *Plugin) Unmount(ctx context.Context, u volume.Unmount) error {
	for {
		mounted, err := p.mounted(ctx, u.Dir)
		if err == nil && mounted {
			err = p.unmount(ctx, u.Dir)
		}
		if err != nil {
			return fmt.Errorf("nfs: %w", err)
		}
		if !mounted {
			break
		}
	}
	p.forgetAttempt(u.Dir)
	if err := os.Remove(u.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("nfs: %w", err)
	}
	return nil
}

// unmount unmounts dir. It detaches dir once forceAfter has passed since the first attempt,
// because a blocked call of this agent may keep the mount in use.
func (p *Plugin) unmount(ctx context.Context, dir string) error {
	p.mu.Lock()
	if _, ok := p.firstAttempt[dir]; !ok {
		p.firstAttempt[dir] = time.Now()
	}
	deadline := p.firstAttempt[dir].Add(p.forceAfter)
	p.mu.Unlock()
	if time.Now().Before(deadline) {
		untilForced, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		err := p.cfg.Mounts.Unmount(untilForced, dir)
		if err == nil || ctx.Err() != nil || untilForced.Err() == nil {
			return err
		}
	}
	detachCtx, cancel := context.WithTimeout(ctx, detachTimeout)
	defer cancel()
	err := p.cfg.Mounts.Detach(detachCtx, dir)
	if errors.Is(err, mounts.ErrLeftBehind) && ctx.Err() == nil {
		return nil // the mount may be out of view although the kernel still contacts the server
	}
	return err
}

// detachTimeout bounds a Detach before the mount table is read again.
const detachTimeout = 3 * time.Second

func (p *Plugin) forgetAttempt(dir string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.firstAttempt, dir)
}
