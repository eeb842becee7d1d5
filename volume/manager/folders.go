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

// The functions of this file access no content of volumes and not even a mount point, because
// access to an unreachable server blocks.

var errNotEmpty = errors.New("not empty")

// removeFolders removes the empty folders of a pod's volumes. The error lists paths that still
// have content.
func (m *Manager) removeFolders(uid types.UID) error {
	l := m.cfg.Layout
	// Other content of the folder "plugins" does not belong to volumes.
	_ = removeTree(filepath.Join(l.Pod(uid), "plugins"), 1, removeEmpty)
	return run.Join(
		removeTree(l.Volumes(uid), 1, removeEmpty),
		removeTree(l.Devices(uid), 1, removeEmpty),
		removeTree(l.SubPaths(uid), 3, removePlaceholder),
	)
}

// removeTree removes a folder with the given number of levels below it. leaf removes the
// entries of the last level.
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

// removePlaceholder removes the file or empty folder of a sub path. It fails for a mount point.
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

// removeEmpty removes an empty folder that is no mount point. A missing folder is no error.
func removeEmpty(dir string) error {
	switch err := syscall.Rmdir(dir); {
	case err == nil, errors.Is(err, iofs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTEMPTY):
		return fmt.Errorf("%s: %w", dir, errNotEmpty)
	default:
		return &iofs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
}
