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
	"github.com/podwright/podwright/volume/mounts"
)

// SubPaths mounts sub paths of volumes. It implements SubPaths of cri/pods/request. Use
// New. Methods are safe for concurrent use, but not for one pod.
type SubPaths struct {
	cfg      Config
	calls    run.Calls
	walkOnly bool
}

// New checks the configuration. It does not look at the disk.
func New(cfg Config) (*SubPaths, error) {
	if err := cfg.Layout.Check("subpath: Config.Layout"); err != nil {
		return nil, err
	}
	fields.Default[mounts.Mounter](&cfg.Mounts, &mounts.Kernel{})
	return &SubPaths{cfg: cfg}, nil
}

const (
	dirMode  = 0o750
	fileMode = 0o640
)

// Prepare opens a sub path, makes folders that are missing with the mode of the volume's
// folder, mounts it and returns where. What is mounted already and still the same is
// left as it is; something else there is unmounted first, as after an update of a config
// map.
func (p *SubPaths) Prepare(ctx context.Context, s SubPath) (hostPath string, err error) {
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

func (p *SubPaths) target(s SubPath) string {
	return p.cfg.Layout.SubPath(s.PodUID, s.Volume, s.Container, s.Index)
}

func (p *SubPaths) prepare(ctx context.Context, s SubPath, target string) error {
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
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return err
	}
	if there, err := p.mounted(ctx, target, is); there || err != nil {
		return err
	}
	if err := makePoint(target, is.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	return p.cfg.Mounts.Mount(ctx, mounts.Mount{Source: pathOf(fd), Target: target, Options: []string{"bind"}})
}

// mounted tells whether what was opened is mounted, and unmounts something else.
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
	return false, fmt.Errorf("%s: too much is mounted", target)
}

// maxStacked bounds how much is mounted at one place.
const maxStacked = 100

// makePoint makes a folder or file to mount at.
func makePoint(target string, dir bool) error {
	if err := os.MkdirAll(filepath.Dir(target), dirMode); err != nil {
		return err
	}
	if info, err := os.Lstat(target); err == nil && info.IsDir() != dir {
		if err := os.Remove(target); err != nil { // an empty folder or a file
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

// Release undoes a Prepare. That there is nothing is no error.
func (p *SubPaths) Release(ctx context.Context, s SubPath) error {
	s.VolumePath, s.Path = "/", "" // they do not matter here
	if err := check(s); err != nil {
		return fmt.Errorf("sub path: %w", err)
	}
	target := p.target(s)
	if err := p.release(ctx, target); err != nil {
		return err
	}
	for range 3 { // of the container, the volume and the pod, unless others are in it
		target = filepath.Dir(target)
		_ = os.Remove(target)
	}
	return nil
}

// release unmounts what is at a path, and removes the path. It asks no file system that
// is mounted there.
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
			case !errors.Is(err, unix.EBUSY): // something was mounted below it
				return fmt.Errorf("sub path: %w", &iofs.PathError{Op: "remove", Path: target, Err: err})
			}
		}
		return fmt.Errorf("sub path: %s: too much is mounted", target)
	})
}

// ReleasePod unmounts all sub paths of a pod, including those of earlier agents, and
// removes their mount points. It removes no content of volumes.
func (p *SubPaths) ReleasePod(ctx context.Context, pod types.UID) error {
	if err := fs.CheckName("pod UID", string(pod)); err != nil {
		return fmt.Errorf("sub path: %w", err)
	}
	return p.clear(ctx, p.cfg.Layout.SubPaths(pod), 3)
}

// clear releases what is so many levels below a folder, and removes the folders above.
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
