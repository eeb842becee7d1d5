package pods

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/pleg"
)

// LogDir is the directory of a pod's logs below root.
func LogDir(root, namespace, name string, uid types.UID) string {
	return request.LogDir(root, namespace, name, uid)
}

// uidOfLogDir returns the pod UID in the name of a log directory.
func uidOfLogDir(base string) (types.UID, bool) {
	i := strings.LastIndexByte(base, '_')
	if i < 0 || i == len(base)-1 {
		return "", false
	}
	return types.UID(base[i+1:]), true
}

const maxNameLength = 255

// linkName is the name of the symbolic link to a container's log.
func linkName(p podIdentity, container, id string) string {
	const suffix = ".log"
	base := p.Name + "_" + p.Namespace + "_" + container + "-" + id
	return base[:min(len(base), maxNameLength-len(suffix))] + suffix
}

// idOfLink returns the container ID in the name of such a link, possibly cut
// short at its end.
func idOfLink(name string) (string, bool) {
	rest, ok := strings.CutSuffix(name, ".log")
	if !ok {
		return "", false
	}
	id := rest[strings.LastIndexByte(rest, '-')+1:]
	return id, len(id) >= 6
}

// instanceOfLog returns the instance number in the name of a log or of what was
// rotated from it: 3 for "3.log" and for "3.log.20260102-030405.gz".
func instanceOfLog(name string) (int32, bool) {
	digits, rest, _ := strings.Cut(name, ".")
	if rest != "log" && !strings.HasPrefix(rest, "log.") {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	return int32(n), err == nil && n < 1<<31-1
}

// restartsInLogDir counts a container's instances by the logs that they left: 0
// without any. It makes restart counts survive the loss of a runtime's state.
func restartsInLogDir(dir string) (int32, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	count := int32(0)
	for _, e := range entries {
		if n, ok := instanceOfLog(e.Name()); ok {
			count = max(count, n+1)
		}
	}
	return count, nil
}

// linkLog makes the symbolic link to a container's log, if the log is there.
func (m *Manager) linkLog(p podIdentity, container, id, logPath string) error {
	if m.cfg.LinkDir == "" {
		return nil
	}
	if _, err := os.Stat(logPath); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := os.MkdirAll(m.cfg.LinkDir, 0o755); err != nil {
		return err
	}
	link := filepath.Join(m.cfg.LinkDir, linkName(p, container, id))
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(logPath, link)
}

// repairLinks makes the links that an agent did not get around to make before it
// died: collectors of logs would not see these containers.
func (m *Manager) repairLinks(p podIdentity, status *pleg.PodStatus) {
	if m.cfg.LinkDir == "" {
		return
	}
	for _, c := range status.Running() {
		_, err := os.Lstat(filepath.Join(m.cfg.LinkDir, linkName(p, c.Name, c.ID.ID)))
		if c.LogPath == "" || !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := m.linkLog(p, c.Name, c.ID.ID, c.LogPath); err != nil {
			m.log.Warn("cannot link to the log of a container", "pod", p, "container", c.Name, "err", err)
		}
	}
}

// removeLogs removes a container's log with everything rotated from it, and the
// link to it. Only files below LogRoot are touched.
func (m *Manager) removeLogs(p podIdentity, container, id, logPath string) error {
	if m.cfg.LinkDir != "" {
		err := os.Remove(filepath.Join(m.cfg.LinkDir, linkName(p, container, id)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("log link: %w", err)
		}
	}
	if rel, err := filepath.Rel(m.cfg.LogRoot, logPath); logPath == "" || err != nil || !filepath.IsLocal(rel) {
		return nil
	}
	return removePrefixed(logPath)
}

// removePrefixed removes every file whose path begins with prefix.
func removePrefixed(prefix string) error {
	dir, base := filepath.Split(prefix)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("logs: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), base) && !e.IsDir() {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("logs: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}
