// Package podfolder creates and removes each pod's folder on the node, in the kubelet's layout.
// Folders implements stages.Stage (podworkers/stages):
//
//	<root>/<pod UID>/volumes
//	<root>/<pod UID>/plugins
//
// It is the first in a list of stages and is released last, when the pod has finished: other
// stages mount and store files in the folder.
//
//	folders, err := podfolder.New(podfolder.Config{Root: "/var/lib/kubelet/pods"})
//	...
//	stages.Entry{Name: "pod folder", Release: stages.Gone, Stage: folders}
//
// Release deletes no file while there is a mount at or below the folder, because the mount may
// be a volume with data that does not belong to the pod.
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

// ErrMounted is wrapped by the error of a Release that deleted no files because of a mount. The
// error lists the mount points.
var ErrMounted = errors.New("still mounted")

// Config configures Folders. Root is required.
type Config struct {
	// Root is the absolute path of the folder for all pods. It must contain pod folders only.
	// It is created for the first pod.
	Root string
}

// Folders implements stages.Stage for the folders of pods. Create it with New. It is safe for
// concurrent use.
type Folders struct {
	cfg    Config
	mounts mounts.Mounter
}

// New checks the configuration and returns Folders. It does not access the disk.
func New(cfg Config) (*Folders, error) {
	f := fields.Of("podfolder: Config")
	f.Absolute("Root", cfg.Root)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Folders{cfg, &mounts.Kernel{}}, nil
}

// mode excludes other users from the folders of pods.
const mode = 0o750

// Pod returns a pod's folder.
func (f *Folders) Pod(uid types.UID) string { return filepath.Join(f.cfg.Root, string(uid)) }

// volumes returns the folder of a pod's volumes.
func (f *Folders) volumes(uid types.UID) string { return filepath.Join(f.Pod(uid), "volumes") }

// plugins returns the folder for the state of a pod's volume plugins.
func (f *Folders) plugins(uid types.UID) string { return filepath.Join(f.Pod(uid), "plugins") }

func check(uid types.UID) error { return fs.CheckName("podfolder: the UID", string(uid)) }

// Prepare implements stages.Stage.
func (f *Folders) Prepare(ctx context.Context, pod *v1.Pod) error {
	if err := errors.Join(ctx.Err(), check(pod.UID)); err != nil {
		return err
	}
	for _, dir := range []string{f.volumes(pod.UID), f.plugins(pod.UID)} {
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

// Leftovers implements stages.Stage. It lists the pods that have a folder.
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
