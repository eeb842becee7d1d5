package pods

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// removeLinks removes the links that are left to logs of a pod: those of containers
// which were removed without their logs.
func (m *Manager) removeLinks(p podIdentity) error {
	if m.cfg.LinkDir == "" || p.Name == "" {
		return nil
	}
	entries, err := os.ReadDir(m.cfg.LinkDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	prefix, logs := p.Name+"_"+p.Namespace+"_", m.podLogDir(p)+string(filepath.Separator)
	var errs []error
	for _, e := range entries {
		link := filepath.Join(m.cfg.LinkDir, e.Name())
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if target, err := os.Readlink(link); err != nil || !strings.HasPrefix(target, logs) {
			continue
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
