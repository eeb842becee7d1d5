package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// folders are the agent's folders, laid out as an upstream kubelet has them.
type folders struct{ root string }

const private = 0o750

func (f folders) pods() string                 { return filepath.Join(f.root, "pods") }
func (f folders) manifests() string            { return filepath.Join(f.root, "static_manifests") }
func (f folders) pod(uid types.UID) string     { return filepath.Join(f.pods(), string(uid)) }
func (f folders) volumes(uid types.UID) string { return filepath.Join(f.pod(uid), "volumes") }
func (f folders) plugins(uid types.UID) string { return filepath.Join(f.pod(uid), "plugins") }

// status is the file with what was last said of a pod. No other kubelet has one of
// this name.
func (f folders) status(uid types.UID) string {
	return filepath.Join(f.pod(uid), "podwright-status.json")
}

// prepare makes the folders of the agent itself.
func (f folders) prepare() error {
	for _, dir := range []string{f.root, f.pods()} {
		if err := os.MkdirAll(dir, private); err != nil {
			return fmt.Errorf("root folder: %w", err)
		}
	}
	return nil
}

// preparePod makes the folders of a pod.
func (f folders) preparePod(uid types.UID) error {
	for _, dir := range []string{f.pod(uid), f.volumes(uid), f.plugins(uid)} {
		if err := os.MkdirAll(dir, private); err != nil {
			return fmt.Errorf("pod folder: %w", err)
		}
	}
	return nil
}

// removePod removes the folders of a pod that is gone. While something is mounted
// below them they stay: it may be a volume that another kubelet has mounted, whose
// data is not the pod's to delete.
func (f folders) removePod(uid types.UID) error {
	mounts, err := mountsBelow(f.pod(uid))
	if err != nil {
		return fmt.Errorf("pod folder: %w", err)
	}
	if len(mounts) > 0 {
		return fmt.Errorf("pod folder: still mounted: %s", strings.Join(mounts, ", "))
	}
	if err := os.RemoveAll(f.pod(uid)); err != nil {
		return fmt.Errorf("pod folder: %w", err)
	}
	return nil
}

// mountsBelow lists the mount points at or below a folder. Systems without
// /proc/self/mountinfo have none.
func mountsBelow(dir string) ([]string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return mountPoints(string(info), dir), nil
}

// mountPoints finds the mount points at or below dir in a mountinfo, in which some
// characters are octal escapes.
func mountPoints(mountinfo, dir string) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescape.Replace(fields[4]); point == dir || strings.HasPrefix(point, dir+"/") {
			out = append(out, point)
		}
	}
	return out
}

// listPods lists the pods that have a folder.
func (f folders) listPods() ([]types.UID, error) {
	entries, err := os.ReadDir(f.pods())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var uids []types.UID
	for _, e := range entries {
		if e.IsDir() {
			uids = append(uids, types.UID(e.Name()))
		}
	}
	return uids, nil
}
