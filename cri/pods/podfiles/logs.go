// Package podfiles manages the files of pods on the disk: container logs, links to logs, and
// termination messages. A Layout has their paths and no other state.
//
// Unstable: a part of package pods that changes with each version of the kubelet.
package podfiles

import (
	"cmp"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/internal/fs"
)

// LogDir returns the directory of a pod's logs.
func (l Layout) LogDir(p labels.Pod) string {
	return request.LogDir(l.LogRoot, p.Namespace, p.Name, p.UID)
}

// uidOfLogDir returns the pod UID in the name of a log directory.
func uidOfLogDir(base string) (types.UID, bool) {
	parts := strings.SplitN(base, "_", 3) // names and namespaces have no underscore, UIDs may
	if len(parts) < 3 || parts[2] == "" {
		return "", false
	}
	return types.UID(parts[2]), true
}

// instanceOfLog returns the instance number in the name of a log or rotated log: 3 for "3.log"
// and for "3.log.20260102-030405.gz".
func instanceOfLog(name string) (int32, bool) {
	digits, rest, _ := strings.Cut(name, ".")
	if rest != "log" && !strings.HasPrefix(rest, "log.") {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	return int32(n), err == nil && n < 1<<31-1
}

// RestartsInLogDir returns the restart count that follows the logs in a container's directory:
// one more than the highest instance number, or 0 without logs. So restart counts survive the
// loss of a runtime's state.
func RestartsInLogDir(dir string) (int32, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, iofs.ErrNotExist) {
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

// ownerFile is the file with the owner's name in a pod's log directory. Without it the pod has no
// label with an owner.
const ownerFile = ".owner"

// ErrForeign is wrapped by errors about log directories of other owners.
var ErrForeign = errors.New("belongs to another owner")

// MakeLogDir makes a pod's log directory, and one below it if below is not empty. If it exists and
// is not the owner's, the error wraps ErrForeign.
func (l Layout) MakeLogDir(p labels.Pod, below string) error {
	dir := l.LogDir(p)
	if err := l.makeOwned(dir); err != nil {
		return err
	}
	owner, err := ownerOf(dir, p.UID)
	if err != nil {
		return err
	}
	if !l.Owner.Owns(owner) {
		return fmt.Errorf("log directory %s %w: %q", dir, ErrForeign, owner[cri.LabelOwner])
	}
	return os.MkdirAll(filepath.Join(dir, below), 0o755)
}

// makeOwned makes a missing directory together with its ownerFile, so that a kill -9 leaves both or
// none.
func (l Layout) makeOwned(dir string) error {
	if l.Owner.Name == "" {
		return os.MkdirAll(dir, 0o755)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(l.LogRoot, 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(l.LogRoot, l.unfinished())
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	if err := l.markOwned(fresh); err != nil {
		return err
	}
	if err := os.Rename(fresh, dir); !errors.Is(err, iofs.ErrExist) {
		return err
	}
	return nil
}

// unfinished returns the prefix of the directories that makeOwned has not renamed yet. A number
// without '-' follows.
func (l Layout) unfinished() string { return ".new-" + l.Owner.Name + "-" }

// RemoveUnfinished removes the owner's log directories that a killed agent was making more than a
// minute ago.
func (l Layout) RemoveUnfinished() error {
	entries, err := os.ReadDir(l.LogRoot)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		number, found := strings.CutPrefix(e.Name(), l.unfinished())
		if !found || strings.Contains(number, "-") || !e.IsDir() {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Minute {
			errs = append(errs, os.RemoveAll(filepath.Join(l.LogRoot, e.Name())))
		}
	}
	return errors.Join(errs...)
}

func (l Layout) markOwned(dir string) error {
	return fs.WriteAtomic(filepath.Join(dir, ownerFile), []byte(l.Owner.Name), 0o644)
}

// AdoptLogDir makes a pod's log directory without an owner the owner's.
func (l Layout) AdoptLogDir(p labels.Pod) error {
	dir := l.LogDir(p)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if owner, err := ownerOf(dir, p.UID); err != nil || len(owner) > 1 {
		return cmp.Or(err, l.MakeLogDir(p, ""))
	}
	return l.markOwned(dir)
}

// ownerOf returns the labels that identify the owner of a pod's log directory.
func ownerOf(dir string, uid types.UID) (map[string]string, error) {
	out := map[string]string{labels.PodUID: string(uid)}
	name, err := os.ReadFile(filepath.Join(dir, ownerFile))
	switch {
	case err == nil:
		out[cri.LabelOwner] = string(name)
	case !errors.Is(err, iofs.ErrNotExist):
		return nil, err
	}
	return out, nil
}

// PodLogDirs returns the log directories of the owner's pods. A pod has one, or several if its name
// has changed. A directory whose owner cannot be read is not listed.
func (l Layout) PodLogDirs() (map[types.UID][]string, error) {
	entries, err := os.ReadDir(l.LogRoot)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return nil, fmt.Errorf("logs: %w", err)
	}
	out := map[types.UID][]string{}
	for _, e := range entries {
		uid, ok := uidOfLogDir(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		dir := filepath.Join(l.LogRoot, e.Name())
		if owner, err := ownerOf(dir, uid); err == nil && l.Owner.Owns(owner) {
			out[uid] = append(out[uid], dir)
		}
	}
	return out, nil
}

// RemovePodLogs removes all logs of a pod and the links to them, even if the runtime does not
// list the pod. The links are removed first, because only their targets identify the pod.
func (l Layout) RemovePodLogs(uid types.UID) error {
	dirs, err := l.PodLogDirs()
	if err != nil {
		return err
	}
	for _, dir := range dirs[uid] {
		if err := l.removeLinks(dir); err != nil {
			return fmt.Errorf("log links: %w", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("logs: %w", err)
		}
	}
	return nil
}

// RemoveLogs removes a container's log, the logs rotated from it, and the link to it. It removes
// only logs in the log directory of the pod.
func (l Layout) RemoveLogs(p labels.Pod, container, id, logPath string) error {
	if l.LinkDir != "" {
		err := os.Remove(l.link(p, container, id))
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return fmt.Errorf("log link: %w", err)
		}
	}
	rel, err := filepath.Rel(l.LogDir(p), logPath)
	if logPath == "" || err != nil || rel == "." || !filepath.IsLocal(rel) {
		return nil
	}
	return removePrefixed(filepath.Clean(logPath))
}

// removePrefixed removes every file whose path begins with prefix.
func removePrefixed(prefix string) error {
	dir, base := filepath.Split(prefix)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("logs: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), base) && !e.IsDir() {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, iofs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("logs: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// Layout has the paths of pods' files.
type Layout struct {
	// Owner owns the pods. Log directories of other owners are not listed.
	Owner cri.Owner
	// LogRoot is the directory with one log directory per pod.
	LogRoot string
	// LinkDir is the directory of symbolic links to container logs. "" disables links.
	LinkDir string
	// PodDir returns a pod's directory, which contains its termination message files. Optional:
	// without it there are no such files.
	PodDir func(uid types.UID) string
}
