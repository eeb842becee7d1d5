// Package podfolder gives each pod a folder on the node, laid out as kubelets have it,
// as a stage (podworkers/stages):
//
//	<root>/<pod UID>/volumes
//	<root>/<pod UID>/plugins
//
// It stands first in a list of stages and is released last, when the pod is gone: others
// mount and keep things in it.
//
//	folders, err := podfolder.New(podfolder.Config{Root: "/var/lib/kubelet/pods"})
//	...
//	stages.Entry{Name: "pod folder", Release: stages.Gone, Stage: folders}
//
// While something is mounted at or below a folder, nothing of it is deleted: it may be a
// volume whose data is not the pod's.
package podfolder

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/volume/mounts"
)

// ErrMounted is wrapped by the error of a Release that has deleted nothing, since
// something is mounted. The mount points are named.
var ErrMounted = errors.New("still mounted")

// Config configures Folders. Root is required.
type Config struct {
	// Root is the folder with the folders of all pods, an absolute path. Nothing else is
	// in it. It is made when the first pod is prepared.
	Root string
}

// Folders are the folders of pods. It is a stages.Stage. Use New. It is safe for
// concurrent use.
type Folders struct {
	cfg    Config
	mounts mounts.Mounter
}

// New checks the configuration. It does not look at the disk.
func New(cfg Config) (*Folders, error) {
	f := fields.Of("podfolder: Config")
	f.Absolute("Root", cfg.Root)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Folders{cfg, &mounts.Kernel{}}, nil
}

// mode is that of the folders: what pods have is nobody else's business.
const mode = 0o750

// Pod is a pod's folder.
func (f *Folders) Pod(uid types.UID) string { return filepath.Join(f.cfg.Root, string(uid)) }

// Volumes is the folder in which a pod's volumes are.
func (f *Folders) Volumes(uid types.UID) string { return filepath.Join(f.Pod(uid), "volumes") }

// Plugins is the folder in which plugins of volumes keep what is the pod's.
func (f *Folders) Plugins(uid types.UID) string { return filepath.Join(f.Pod(uid), "plugins") }

// check refuses what is no name of a folder below Root.
func check(uid types.UID) error { return fs.CheckName("podfolder: the UID", string(uid)) }

// Prepare implements stages.Stage.
func (f *Folders) Prepare(ctx context.Context, pod *v1.Pod) error {
	if err := errors.Join(ctx.Err(), check(pod.UID)); err != nil {
		return err
	}
	for _, dir := range []string{f.Volumes(pod.UID), f.Plugins(pod.UID)} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return fmt.Errorf("pod folder: %w", err)
		}
	}
	return nil
}

// Release implements stages.Stage.
func (f *Folders) Release(ctx context.Context, uid types.UID) error {
	if err := errors.Join(ctx.Err(), check(uid)); err != nil {
		return err
	}
	found, err := f.mountedIn(ctx, f.Pod(uid))
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%w: %s", ErrMounted, strings.Join(found, ", "))
	}
	if err == nil {
		err = fs.Remove(ctx, f.Pod(uid))
	}
	if err != nil {
		return fmt.Errorf("pod folder: %w", err)
	}
	return nil
}

// mountedIn lists the mount points at or below a folder.
func (f *Folders) mountedIn(ctx context.Context, dir string) (found []string, err error) {
	dir, err = filepath.EvalSymlinks(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	points, err := f.mounts.Below(ctx, dir)
	for _, point := range points {
		found = append(found, point.Path)
	}
	return found, err
}

// Leftovers implements stages.Stage: it lists the pods that have a folder.
func (f *Folders) Leftovers(context.Context) ([]types.UID, error) {
	entries, err := fs.List(f.cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("pod folders: %w", err)
	}
	var uids []types.UID
	for _, e := range entries {
		if e.IsDir() {
			uids = append(uids, types.UID(e.Name()))
		}
	}
	return uids, nil
}
