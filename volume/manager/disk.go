package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

// Nothing here looks into volumes, or even at them: who looks at a mount point of a
// server that does not answer waits for it.

// list lists a folder, which need not be there.
func list(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// onDisk lists what the disk has of a pod's volumes.
func (m *Manager) onDisk(uid types.UID) (out []found, err error) {
	for _, block := range []bool{false, true} {
		root := m.cfg.Layout.Volumes(uid)
		if block {
			root = m.cfg.Layout.Devices(uid)
		}
		folders, err := list(root)
		if err != nil {
			return out, err
		}
		for _, folder := range folders {
			if !folder.IsDir() {
				continue // whoever removes the folder will say so
			}
			names, err := list(filepath.Join(root, folder.Name()))
			if err != nil {
				return out, err
			}
			for _, name := range names {
				key := volumeKey{plugin: volume.Unescape(folder.Name()), name: name.Name(), block: block}
				out = append(out, m.foundOn(filepath.Join(root, folder.Name(), name.Name()), key))
			}
		}
	}
	return out, nil
}

// foundOn asks a volume's plugin whose it is.
func (m *Manager) foundOn(dir string, key volumeKey) found {
	f := found{key: key, plugin: m.plugins[key.plugin]}
	if _, ok := f.plugin.(volume.Stager); !ok {
		return f
	}
	owner, ok := f.plugin.(volume.Owner)
	if !ok {
		f.unknown = true
		return f
	}
	err := run.Guard("the plugin", func() (err error) { f.shared, err = owner.VolumeIDOf(dir); return err })
	if err != nil {
		f.unknown = true
		m.cfg.Logger.Warn("cannot tell whose volume this is", "path", dir, "err", err)
	}
	return f
}

// removeFolders removes the folders of a pod's volumes, and nothing in them: what is
// still there is an error that names it.
func (m *Manager) removeFolders(uid types.UID) error {
	l := m.cfg.Layout
	// What else is in the folder of plugins is not the business of volumes.
	_ = removeTree(filepath.Join(l.Pod(uid), "plugins"), 1, removeEmpty)
	return run.Join(
		removeTree(l.Volumes(uid), 1, removeEmpty),
		removeTree(l.Devices(uid), 1, removeEmpty),
		removeTree(l.SubPaths(uid), 3, removePlaceholder),
	)
}

// removeTree removes a folder with so many levels of folders in it. What is on the last
// of them is removed by leaf.
func removeTree(root string, levels int, leaf func(string) error) error {
	entries, err := list(root)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		if levels > 1 {
			errs = append(errs, removeTree(path, levels-1, leaf))
		} else {
			errs = append(errs, leaf(path))
		}
	}
	if err := run.Join(errs...); err != nil {
		return err
	}
	return removeEmpty(root)
}

// removePlaceholder removes a file or an empty folder on which a sub path was mounted. A
// mount point stays.
func removePlaceholder(path string) error {
	err := removeEmpty(path)
	if errors.Is(err, syscall.ENOTDIR) {
		err = syscall.Unlink(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// removeEmpty removes a folder if it is empty and no mount point. That it is not there
// is no error.
func removeEmpty(dir string) error {
	switch err := syscall.Rmdir(dir); {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTEMPTY):
		return fmt.Errorf("%s: %w", dir, errLeft)
	default:
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
}

// Leftovers names the pods that have volumes, or anything in their folders of volumes:
// those of which it is known are not looked at. It implements stages.Stage.
func (m *Manager) Leftovers(ctx context.Context) (uids []types.UID, err error) {
	pods, err := m.podsOnDisk()
	known := m.withVolumes()
	var errs []error
	for _, uid := range pods {
		if ctx.Err() != nil {
			return uids, run.EndOf(ctx)
		}
		if known.has(uid) {
			uids = append(uids, uid)
			continue
		}
		there, err := m.hasAny(uid)
		errs = append(errs, err)
		if there {
			uids = append(uids, uid)
		}
	}
	return uids, run.Join(append(errs, err)...)
}

// withVolumes are the pods with volumes that were not released.
func (m *Manager) withVolumes() set[types.UID] {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := set[types.UID]{}
	for uid, p := range m.world.pods {
		if p.pod != nil && !p.releasing && len(p.volumes) > 0 {
			known.add(uid)
		}
	}
	return known
}

func (m *Manager) hasAny(uid types.UID) (bool, error) {
	l := m.cfg.Layout
	for _, dir := range []string{l.Volumes(uid), l.Devices(uid), l.SubPaths(uid)} {
		entries, err := list(dir)
		if len(entries) > 0 {
			return true, nil
		}
		if err != nil {
			// There is something, or nobody knows.
			return true, fmt.Errorf("pod %s: %w", uid, err)
		}
	}
	return false, nil
}
