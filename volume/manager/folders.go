package manager

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"syscall"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
)

// Nothing here looks into volumes, or even at them: who looks at a mount point of a
// server that does not answer waits for it.

var errLeft = errors.New("it is not empty")

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
	entries, err := fs.List(root)
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
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// removeEmpty removes a folder if it is empty and no mount point. That it is not there
// is no error.
func removeEmpty(dir string) error {
	switch err := syscall.Rmdir(dir); {
	case err == nil, errors.Is(err, iofs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTEMPTY):
		return fmt.Errorf("%s: %w", dir, errLeft)
	default:
		return &iofs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
}
