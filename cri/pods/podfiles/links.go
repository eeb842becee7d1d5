package podfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/podwright/podwright/cri/pods/labels"
)

const maxNameLength = 255

// linkName returns the name of the symbolic link to a container's log.
func linkName(p labels.Pod, container, id string) string {
	const suffix = ".log"
	base := p.Name + "_" + p.Namespace + "_" + container + "-" + id
	return base[:min(len(base), maxNameLength-len(suffix))] + suffix
}

// IDOfLink returns the container ID in the name of a link to a log. The ID may be truncated.
func IDOfLink(name string) (string, bool) {
	rest, ok := strings.CutSuffix(name, ".log")
	if !ok {
		return "", false
	}
	id := rest[strings.LastIndexByte(rest, '-')+1:]
	return id, len(id) >= 6
}

func (l Layout) link(p labels.Pod, container, id string) string {
	return filepath.Join(l.LinkDir, linkName(p, container, id))
}

// LinkLog makes the symbolic link to a container's log, if the log exists.
func (l Layout) LinkLog(p labels.Pod, container, id, logPath string) error {
	if l.LinkDir == "" {
		return nil
	}
	if _, err := os.Stat(logPath); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := os.MkdirAll(l.LinkDir, 0o755); err != nil {
		return err
	}
	link := l.link(p, container, id)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(logPath, link)
}

// RepairLink makes a missing link to a container's log, for example after a crash of the agent.
// Log collectors depend on the link.
func (l Layout) RepairLink(p labels.Pod, container, id, logPath string) error {
	if l.LinkDir == "" || logPath == "" {
		return nil
	}
	if _, err := os.Lstat(l.link(p, container, id)); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return l.LinkLog(p, container, id, logPath)
}

// DanglingLinks returns the names in LinkDir of links to logs that do not exist, except for links
// into the log directory of another owner.
func (l Layout) DanglingLinks() ([]string, error) {
	if l.LinkDir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(l.LinkDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("log links: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 || !strings.HasSuffix(e.Name(), ".log") {
			continue
		}
		link := filepath.Join(l.LinkDir, e.Name())
		if _, err := os.Stat(link); errors.Is(err, fs.ErrNotExist) && !l.foreign(link) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// foreign reports whether a link leads into the log directory of another owner.
func (l Layout) foreign(link string) bool {
	target, err := os.Readlink(link)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(l.LogRoot, target)
	if err != nil {
		return false
	}
	base, _, _ := strings.Cut(rel, string(filepath.Separator))
	uid, ok := uidOfLogDir(base)
	dir := filepath.Join(l.LogRoot, base)
	if _, err := os.Lstat(dir); err != nil || !ok {
		return false
	}
	owner, err := ownerOf(dir, uid)
	return err != nil || !l.Owner.Owns(owner)
}

// removeLinks removes the links to logs below a directory.
func (l Layout) removeLinks(dir string) error {
	if l.LinkDir == "" {
		return nil
	}
	entries, err := os.ReadDir(l.LinkDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		link := filepath.Join(l.LinkDir, e.Name())
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, dir+string(filepath.Separator)) {
			continue
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
