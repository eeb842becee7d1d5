package projected

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/ownership"
)

// volumes implements Mount and Unmount of all four plugins. It is safe for concurrent use.
type volumes struct {
	cfg          Config
	chown        ownership.ChownFunc
	fingerprints fingerprints
}

type content struct {
	payload   payload
	medium    v1.StorageMedium // "" for disk, Memory
	refreshAt time.Time        // Mounted.RefreshAt
}

// undoTime bounds the undo of a failed mount after its context has ended.
const undoTime = 5 * time.Second

// mount implements volume.Plugin.Mount for a volume with content c. If it fails, an existing
// volume keeps its content and a new one is removed.
func (v *volumes) mount(ctx context.Context, m volume.Mount, c content) (volume.Mounted, error) {
	payload, err := c.payload.check()
	if err == nil {
		err = checkInside(m.Inside)
	}
	if err != nil {
		return volume.Mounted{}, volume.Transient(fmt.Errorf("volume %s: %w", m.Spec.Name, err))
	}
	out := volume.Mounted{Path: m.Dir, ReadOnly: true, Relabel: true, RefreshAt: c.refreshAt}
	sum := v.fingerprints.sum(payload, m.Inside)
	if v.fingerprints.matches(m.Dir, sum) {
		return out, nil
	}
	if err := v.set(ctx, m, payload, c.medium); err != nil {
		return volume.Mounted{}, v.failed(ctx, m, fmt.Errorf("volume %s: %w", m.Spec.Name, err))
	}
	v.fingerprints.remember(m.Dir, sum, time.Now())
	return out, nil
}

func (v *volumes) set(ctx context.Context, m volume.Mount, payload payload, medium v1.StorageMedium) error {
	v.fingerprints.forget(m.Dir)
	backing := m
	backing.Spec = &volume.Spec{Name: wrapped(m.Spec.Name), Inline: &v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: medium}}}
	backing.StateDir = stateDir(m.StateDir, v.cfg.Backing.Name(), m.Spec.Name)
	backing.FSGroup, backing.Inside = nil, nil // the package itself handles these
	backing.SELinuxLabel = ""                  // the runtime relabels: see Mounted.Relabel
	if _, err := v.cfg.Backing.Mount(ctx, backing); err != nil {
		return err
	}
	leave, folders, err := makeInside(m.Dir, m.Inside)
	if err != nil {
		return err
	}
	_, err = writePayload(m.Dir, payload, writeOptions{
		Leave:   leave,
		Prepare: func(dir string) error { return v.setGroup(ctx, m, dir) },
		Chown:   func(f *os.File, uid int) error { return v.chown(int(f.Fd()), f.Name(), uid, -1) },
	})
	if err != nil {
		return err
	}
	v.setFolderGroups(m, folders)
	return nil
}

// setGroup sets the pod's group on a new version.
func (v *volumes) setGroup(ctx context.Context, m volume.Mount, dir string) error {
	if m.FSGroup == nil {
		return nil
	}
	_, err := ownership.Apply(ctx, dir, v.group(m))
	return err
}

// setFolderGroups sets the pod's group on the folders outside of versions: those for mounts of
// other volumes, and the root.
func (v *volumes) setFolderGroups(m volume.Mount, inside []string) {
	if m.FSGroup == nil {
		return
	}
	for _, name := range append(inside, ".") {
		if err := ownership.ApplyFile(filepath.Join(m.Dir, name), v.group(m)); err != nil {
			v.logGroupError(m, name, err)
		}
	}
}

func (v *volumes) group(m volume.Mount) ownership.Config {
	return ownership.Config{
		Group: *m.FSGroup, ReadOnly: true, Chown: v.chown,
		OnError: func(path string, err error) { v.logGroupError(m, path, err) },
	}
}

func (v *volumes) logGroupError(m volume.Mount, path string, err error) {
	v.cfg.Logger.Warn("fsGroup not applied to a file of the volume", "volume", m.Dir, "path", path, "err", err)
}

// failed undoes a failed first mount and marks the error if the undo fails.
func (v *volumes) failed(ctx context.Context, m volume.Mount, err error) error {
	v.fingerprints.forget(m.Dir)
	if m.Again || m.Found {
		return volume.Uncertain(err)
	}
	call, done := run.WithGrace(ctx, undoTime)
	defer done()
	undo := v.unmount(call, volume.Unmount{Pod: m.Pod.UID, Name: m.Spec.Name, Dir: m.Dir, StateDir: m.StateDir})
	if undo != nil {
		return volume.Uncertain(run.Join(err, undo))
	}
	return err
}

func (v *volumes) unmount(ctx context.Context, u volume.Unmount) error {
	v.fingerprints.forget(u.Dir)
	u.StateDir = stateDir(u.StateDir, v.cfg.Backing.Name(), u.Name)
	u.Name = wrapped(u.Name)
	return v.cfg.Backing.Unmount(ctx, u)
}

// wrapped returns the kubelets' name for the emptyDir volume below another volume.
func wrapped(name string) string { return "wrapped_" + name }

// stateDir returns the state folder of the backing plugin for a volume. of is the state folder
// of the volume's own plugin.
func stateDir(of, backing, name string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(of)), volume.Escape(backing), wrapped(name))
}

// checkInside returns an error for mounts of other volumes at names that are reserved for
// writePayload.
func checkInside(inside []string) error {
	for _, at := range inside {
		if strings.HasPrefix(at, "..") {
			return fmt.Errorf("mount path %.80q of another volume begins with \"..\"", at)
		}
	}
	return nil
}

// makeInside creates the folders at which containers mount other volumes. It returns their names
// in dir, and the paths of all these folders with their parents. An existing file of the payload
// stays: only an ephemeral container that was added later mounts there.
func makeInside(dir string, inside []string) (names map[string]bool, folders []string, err error) {
	if len(inside) == 0 {
		return nil, nil, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	names = map[string]bool{}
	for _, at := range inside {
		names[top(at)] = true
		if _, err := root.Readlink(top(at)); err == nil {
			continue
		}
		parts := strings.Split(at, "/")
		for i := range parts {
			folder := strings.Join(parts[:i+1], "/")
			if err := makeFolder(root, folder); err != nil {
				return nil, nil, err
			}
			folders = append(folders, folder)
		}
	}
	return names, folders, nil
}

func makeFolder(root *os.Root, name string) error {
	err := root.Mkdir(name, folderMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return root.Chmod(name, folderMode)
}
