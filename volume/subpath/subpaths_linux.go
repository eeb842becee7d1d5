package subpath

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/mounts"
)

// SubPaths mounts sub paths of volumes. It implements SubPaths of cri/pods/request. Create it
// with New. It is safe for concurrent use by different pods; calls for one pod must not
// overlap.
type SubPaths struct {
	cfg      Config
	calls    run.Calls
	walkOnly bool
}

// New checks the configuration and returns SubPaths. It does not access the disk.
func New(cfg Config) (*SubPaths, error) {
	if err := cfg.Layout.Check("subpath: Config.Layout"); err != nil {
		return nil, err
	}
	fields.Default[mounts.Mounter](&cfg.Mounts, &mounts.Kernel{})
	fields.Default(&cfg.OnCreated, func(volume.SubPath) {})
	return &SubPaths{cfg: cfg}, nil
}

const (
	dirMode  = 0o750
	fileMode = 0o640
)

// Prepare opens a sub path, mounts it and returns the mount point. It creates missing folders
// with the mode of the volume's folder. An existing mount of the same file stays. A mount of a
// different file, for example from before an update of a config map, is removed first. Prepare
// returns when ctx is done, also while the kernel blocks a call.
func (p *SubPaths) Prepare(ctx context.Context, s volume.SubPath) (hostPath string, err error) {
	if err := check(s); err != nil {
		return "", fmt.Errorf("sub path: %w", err)
	}
	target := p.target(s)
	err = p.calls.Do(ctx, "prepare sub path", target, func() error { return p.prepare(ctx, s, target) })
	if err != nil {
		return "", fmt.Errorf("sub path: %w", err)
	}
	return target, nil
}

func (p *SubPaths) target(s volume.SubPath) string {
	return p.cfg.Layout.SubPath(s.PodUID, s.Volume, s.Container, s.Index)
}

func (p *SubPaths) prepare(ctx context.Context, s volume.SubPath, target string) error {
	o, err := openVolume(s.VolumePath)
	if err != nil {
		return err
	}
	defer o.close()
	o.walkOnly = p.walkOnly
	fd, err := o.open(s.Path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if o.created {
		p.cfg.OnCreated(s)
	}
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return err
	}
	if mounted, err := p.mounted(ctx, target, is); mounted || err != nil {
		return err
	}
	if err := makePoint(target, is.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	return p.cfg.Mounts.Mount(ctx, mounts.Mount{Source: pathOf(fd), Target: target, Options: []string{"bind"}})
}

// mounted reports whether the opened file is mounted at target. It unmounts any other file.
func (p *SubPaths) mounted(ctx context.Context, target string, want unix.Stat_t) (bool, error) {
	for range maxStacked {
		_, mounted, err := p.cfg.Mounts.At(ctx, target)
		if errors.Is(err, iofs.ErrNotExist) {
			return false, nil
		}
		if err != nil || !mounted {
			return false, err
		}
		var is unix.Stat_t
		if err := unix.Lstat(target, &is); err == nil && is.Dev == want.Dev && is.Ino == want.Ino {
			return true, nil
		}
		if err := p.cfg.Mounts.Unmount(ctx, target); err != nil {
			return false, err
		}
	}
	return false, fmt.Errorf("%s: more than %d mounts on one path", target, maxStacked)
}

// maxStacked bounds the mounts on one path.
const maxStacked = 100

func makePoint(target string, dir bool) error {
	if err := os.MkdirAll(filepath.Dir(target), dirMode); err != nil {
		return err
	}
	if info, err := os.Lstat(target); err == nil && info.IsDir() != dir {
		if err := os.Remove(target); err != nil { // succeeds for an empty folder or a file
			return err
		}
	}
	if dir {
		if err := os.Mkdir(target, dirMode); !errors.Is(err, iofs.ErrExist) {
			return err
		}
		return nil
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW, fileMode)
	if err != nil {
		return err
	}
	return f.Close()
}

// Release undoes a Prepare. A missing mount is no error.
func (p *SubPaths) Release(ctx context.Context, s volume.SubPath) error {
	s.VolumePath, s.Path = "/", "" // unused here, but check requires them
	if err := check(s); err != nil {
		return fmt.Errorf("sub path: %w", err)
	}
	target := p.target(s)
	if err := p.release(ctx, target); err != nil {
		return err
	}
	for range 3 { // the folders of container, volume and pod, if they are empty
		target = filepath.Dir(target)
		_ = os.Remove(target)
	}
	return nil
}

// release removes the mounts at a path, then the path. It does not access the mounted file
// systems.
func (p *SubPaths) release(ctx context.Context, target string) error {
	return p.calls.Do(ctx, "release sub path", target, func() error {
		for range maxStacked {
			if err := p.cfg.Mounts.Unmount(ctx, target); err != nil {
				return fmt.Errorf("sub path: %w", err)
			}
			err := unix.Unlink(target)
			if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
				err = unix.Rmdir(target)
			}
			switch {
			case err == nil, errors.Is(err, unix.ENOENT):
				return nil
			case !errors.Is(err, unix.EBUSY): // EBUSY: there was another mount below
				return fmt.Errorf("sub path: %w", &iofs.PathError{Op: "remove", Path: target, Err: err})
			}
		}
		return fmt.Errorf("sub path: %s: more than %d mounts on one path", target, maxStacked)
	})
}

// ReleasePod unmounts all sub paths of a pod, including those of earlier agents, and removes
// their mount points. It removes no content of volumes.
func (p *SubPaths) ReleasePod(ctx context.Context, pod types.UID) error {
	if err := fs.CheckName("pod UID", string(pod)); err != nil {
		return fmt.Errorf("sub path: %w", err)
	}
	return p.clear(ctx, p.cfg.Layout.SubPaths(pod), 3)
}

// clear releases the mount points at the given number of levels below dir, then removes the
// folders above them.
func (p *SubPaths) clear(ctx context.Context, dir string, levels int) error {
	if levels == 0 {
		return p.release(ctx, dir)
	}
	entries, err := fs.List(dir)
	errs := []error{err}
	for _, e := range entries {
		errs = append(errs, p.clear(ctx, filepath.Join(dir, e.Name()), levels-1))
	}
	if err := run.Join(errs...); err != nil {
		return err
	}
	return fs.RemoveOne(dir)
}
